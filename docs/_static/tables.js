// On a phone the rows of a table become blocks (site.css): each cell then needs the name of its column.
document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll(".bd-article table.table")) {
    const names = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent.trim());
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.cells].forEach((cell, place) => {
        if (place && names[place]) cell.dataset.column = names[place];
      });
    }
  }
});

// A page with many tables gets a search box. It keeps the sections whose heading or text matches, and otherwise
// the rows that match.
const MANY_TABLES = 12;

function keepMatches(article, query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = (text) => words.every((word) => text.toLowerCase().includes(word));
  const sections = [...article.querySelectorAll("section")].reverse(); // inner sections first
  for (const section of sections) {
    const inner = [...section.querySelectorAll(":scope > section")];
    const own = [...section.children].filter((child) => !inner.includes(child));
    const rows = own.flatMap((child) => [...child.querySelectorAll("tbody tr")]);
    const text = own.filter((child) => !child.querySelector("table")).map((child) => child.textContent).join(" ");
    const whole = matches(text);
    for (const row of rows) row.hidden = !whole && !matches(row.textContent);
    section.hidden = !whole && rows.every((row) => row.hidden) && inner.every((child) => child.hidden);
  }
}

document.addEventListener("DOMContentLoaded", () => {
  const article = document.querySelector(".bd-article");
  const page = article?.querySelector("section");
  if (!page || article.querySelectorAll("table.table").length < MANY_TABLES) return;
  const box = document.createElement("input");
  box.type = "search";
  box.className = "table-search form-control";
  box.placeholder = "Search the tables of this page";
  box.setAttribute("aria-label", box.placeholder);
  box.addEventListener("input", () => {
    keepMatches(page, box.value);
    page.hidden = false;
  });
  page.querySelector("h1").after(box);
});
