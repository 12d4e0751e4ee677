"""The endpoints as one page of HTML that needs nothing from elsewhere."""

from __future__ import annotations

from html import escape

from derivdata.tables import endpoints

__all__ = ["page"]

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "h2{font:600 1rem ui-monospace,monospace;margin:2rem 0 .3rem}table{border-collapse:collapse;width:100%}"
    "td,th{border-bottom:1px solid #ddd;padding:.25rem .5rem;text-align:left;vertical-align:top}"
    "code{font-family:ui-monospace,monospace}.tier{color:#777;font-weight:400}"
)


def page(label: str) -> str:
    """Return every endpoint with its tier and parameters as HTML.

    Parameters
    ----------
    label
        Name of the source.
    """
    title = f"derivdata: {escape(label)}"
    parts = "".join(map(_section, endpoints.ENDPOINTS))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{title}</h1>"
        "<p>Every request carries a key in the header <code>X-Api-Key</code>. The same as "
        '<a href="/openapi.json">OpenAPI</a>.</p>'
        f"{parts}</body></html>"
    )


def _section(endpoint: endpoints.Endpoint) -> str:
    rows = "".join(map(_row, endpoint.params))
    head = "<tr><th>parameter</th><th>kind</th><th>default</th><th>meaning</th></tr>"
    table = f"<table>{head}{rows}</table>" if rows else "<p>No parameters.</p>"
    tier = f'<span class="tier">{endpoint.tier.title()} and above</span>'
    return f"<h2>GET {escape(endpoint.path)} {tier}</h2><p>{escape(endpoint.doc)}</p>{table}"


def _row(p: endpoints.Param) -> str:
    kind = ", ".join(p.choices) if p.choices else str(p.kind)
    default = "required" if p.required else "" if p.default is None else str(p.default)
    cells = (f"<code>{escape(p.name)}</code>", escape(kind), escape(default), escape(p.doc))
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
