"""Files that a release needs say the same: version, addresses, Pythons, dependencies, pinned actions."""

from __future__ import annotations

import importlib.util
import itertools
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # noqa: TID251 - safe_load of our own files
from packaging.requirements import Requirement

import derivdata as dd
from paper import make as paper

ROOT = Path(__file__).resolve().parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
OF_CONDA = {"python-duckdb": "duckdb", "matplotlib-base": "matplotlib"}


def loaded(path: str | Path) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def test_version_is_the_same_everywhere() -> None:
    assert "version" in PROJECT["dynamic"]  # hatchling reads derivdata/__init__.py
    assert loaded("CITATION.cff")["version"] == dd.__version__
    assert loaded("conda/recipe.yaml")["context"]["version"] == dd.__version__
    page = (ROOT / "docs" / "record-replay.md").read_text(encoding="utf-8")
    assert f"version = {{{dd.__version__}}}" in page


def test_author_and_address_are_the_same_everywhere() -> None:
    [author] = PROJECT["authors"]
    assert author["name"] == "derivdata contributors"
    assert loaded("CITATION.cff")["authors"] == [{"name": author["name"]}]
    urls = PROJECT["urls"]
    about = loaded("conda/recipe.yaml")["about"]
    assert (about["homepage"], about["repository"]) == (urls["Homepage"], urls["Repository"])
    assert about["documentation"] == urls["Documentation"]
    texts = [*ROOT.glob("*.*"), *(ROOT / "docs").glob("**/*.md"), *(ROOT / "paper").glob("*.md")]
    for path in texts:
        if path.suffix in (".md", ".cff", ".toml") and not {"reference", "gallery"} & set(path.parts):
            result = re.findall(r"https://github\.com/\w+/derivdata", path.read_text(encoding="utf-8"))
            assert set(result) <= {urls["Repository"]}, path


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_ci_actions_are_pinned_with_minimal_permissions(path: Path) -> None:
    workflow = loaded(path)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] <= (350 if path.stem == "weekly" else 90), name
        for step in job["steps"]:
            assert "secrets." not in str(step)
            if "uses" in step:
                assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step["uses"])
                if step["uses"].startswith("actions/checkout"):
                    assert step["with"]["persist-credentials"] is False
    lines = re.findall(r"uses: \S+(.*)", path.read_text(encoding="utf-8"))
    assert all(re.fullmatch(r" # v\d+\.\d+\.\d+", line) for line in lines)


def test_only_the_publishing_job_may_sign() -> None:
    every = [job for path in WORKFLOWS for job in loaded(path)["jobs"].values()]
    rights = [job["permissions"] for job in every if "permissions" in job]
    publish = loaded(ROOT / ".github" / "workflows" / "publish.yml")["jobs"]["publish"]
    assert rights == [{"id-token": "write"}] == [publish["permissions"]]
    assert (publish["environment"]["name"], publish["needs"]) == ("pypi", ["build", "try"])


def test_every_python_of_the_metadata_is_tested_on_three_systems() -> None:
    every = loaded(ROOT / ".github" / "workflows" / "tests.yml")["jobs"].values()
    [matrix] = [job["strategy"]["matrix"] for job in every if "strategy" in job]
    stated = [text.rpartition(" ")[2] for text in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", text)]
    assert matrix["python"] == stated
    assert [name.partition("-")[0] for name in matrix["os"]] == ["ubuntu", "macos", "windows"]


def test_conda_recipe_has_the_dependencies_of_the_package() -> None:
    python, *others = loaded("conda/recipe.yaml")["requirements"]["run"]
    assert python == "python >=${{ python_min }}"
    assert f">={loaded('conda/recipe.yaml')['context']['python_min']}" == PROJECT["requires-python"]
    results = {OF_CONDA.get(name, name): bound for name, bound in (other.split() for other in others)}
    assert results == {r.name: str(r.specifier) for r in map(Requirement, PROJECT["dependencies"])}


def test_every_configuration_names_files_that_exist() -> None:
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    assert container["postCreateCommand"] == "make .venv/.dev"
    host = loaded(".readthedocs.yaml")
    named = [host["sphinx"]["configuration"], host["python"]["install"][0]["requirements"]]
    for path in WORKFLOWS:
        named += re.findall(r"requirements/\w+\.txt", path.read_text(encoding="utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = [t for path in WORKFLOWS for t in re.findall(r"run: make (\S+)", path.read_text("utf-8"))]
    assert {"checks", "test-slow", "docs", "dist", "weekly"} == set(targets)
    assert all(re.search(rf"^{target}:", makefile, flags=re.M) for target in targets)


def test_the_paper_has_the_tables_of_its_script_and_the_sources_that_it_names() -> None:
    text = paper.PAPER.read_text(encoding="utf-8")
    assert paper.paper_with(text) == text
    head = yaml.safe_load(text.split("---")[1])
    assert head["authors"][0]["name"] == PROJECT["authors"][0]["name"]
    listed = (ROOT / "paper" / "paper.bib").read_text(encoding="utf-8")
    assert set(re.findall(r"@(\w+\d*)[\];,)]", text)) == {*re.findall(r"(?m)^@\w+\{(\w+),", listed)}
    assert all((ROOT / "paper" / image).exists() for image in re.findall(r"\]\((\w+\.png)\)", text))


@pytest.mark.parametrize(("rule", "cost"), list(itertools.product(paper.RULES, paper.COSTS)))
def test_the_cards_of_the_paper_are_run_again(rule: str, cost: float) -> None:
    again = dd.rerun(paper.card_of(rule, cost), paper.RECORDING)
    assert again["equal"].all(), again[~again["equal"]]
    assert again.set_index("figure").loc["picks", "recorded"] >= 30


def test_release_uploads_files_before_installing_unpinned_packages() -> None:
    jobs = loaded(".github/workflows/publish.yml")["jobs"]
    steps = jobs["build"]["steps"]
    upload = next(n for n, step in enumerate(steps) if "upload-artifact" in step.get("uses", ""))
    assert upload == len(steps) - 1
    assert not any("pip install" in step.get("run", "") for step in steps)
    unpinned = [name for name, job in jobs.items() if "pip install" in str(job["steps"])]
    assert unpinned == ["try"]
    assert not any("upload-artifact" in str(step) for step in jobs["try"]["steps"])
    assert jobs["publish"]["needs"] == ["build", "try"]


def test_sbom_has_the_version_and_hashes_of_the_lock() -> None:
    spec = importlib.util.spec_from_file_location("sbom", ROOT / "requirements" / "sbom.py")
    assert spec is not None
    assert spec.loader is not None
    sbom = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sbom)
    lock = f"""a.b==1.0 ; python_version < "3.13" \\
    --hash=sha256:{"1" * 64} \\
    --hash=sha256:{"2" * 64}
    # via derivdata
"""
    parts = [{"name": "A_b", "version": "1.0"}]
    document = {"metadata": {"component": {"name": "derivdata"}}, "components": parts}
    done = sbom.complete(document, "3.2.1", lock)
    assert done["metadata"]["component"] == {
        "name": "derivdata", "version": "3.2.1", "purl": "pkg:pypi/derivdata@3.2.1",
    }  # fmt: skip
    [reference] = done["components"][0]["externalReferences"]
    assert [item["content"] for item in reference["hashes"]] == ["1" * 64, "2" * 64]
    locked = sbom.locked_hashes((ROOT / "requirements" / "base.txt").read_text(encoding="utf-8"))
    assert all(locked.values())
    rule = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nsbom:")[2].partition("\n\n")[0]
    assert "cyclonedx-py environment" in rule  # which reads licences and dependencies
    assert "requirements/sbom.py" in rule
