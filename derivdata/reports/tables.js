"use strict";
// Tables sort by a click on a column's name and are copied as CSV; on a phone each cell shows its column's name.
(() => {
  const amount = (text) => {
    const plain = text.replace(/[,\s]/g, "").replace(/\u2212/g, "-");
    return plain === "" ? NaN : Number(plain);
  };
  // A spreadsheet would compute a text that begins like a formula; numbers may begin with a sign.
  const neutral = (text) =>
    (/^'*[=+\-@\t\r]/.test(text) && Number.isNaN(amount(text)) ? "'" + text : text);
  const quoted = (text) => (/[",\n]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text);
  const sort = (table, place, descending) => {
    const rows = [...table.tBodies[0].rows];
    const text = (row) => row.cells[place].textContent;
    const numeric = rows.every((row) => text(row) === "" || !Number.isNaN(amount(text(row))));
    const order = (a, b) => (numeric ? amount(a) - amount(b) : a.localeCompare(b));
    rows.sort((one, other) => {
      const a = text(one), b = text(other);
      if (a === "" || b === "") return (a === "") - (b === ""); // what is missing stays last
      return descending ? order(b, a) : order(a, b);
    });
    table.tBodies[0].append(...rows);
  };
  const copied = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      return done;
    }
  };
  for (const table of document.querySelectorAll("table")) {
    const heads = [...table.tHead.rows[0].cells];
    const names = heads.map((head) => head.textContent);
    for (const row of table.tBodies[0].rows) {
      [...row.cells].forEach((cell, place) => { cell.dataset.label = names[place]; });
    }
    heads.forEach((head, place) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = names[place];
      button.title = "Sort by this column";
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const descending = head.getAttribute("aria-sort") !== "descending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", descending ? "descending" : "ascending");
        sort(table, place, descending);
      });
    });
    const copy = document.createElement("button");
    copy.type = "button";
    copy.className = "copy";
    copy.textContent = "Copy as CSV";
    copy.addEventListener("click", async () => {
      const rows = [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent));
      const text = [names, ...rows].map((row) => row.map(neutral).map(quoted).join(",")).join("\n") + "\n";
      copy.textContent = (await copied(text)) ? "Copied" : "Not copied: the browser refused";
    });
    table.parentElement.after(copy);
  }
})();
