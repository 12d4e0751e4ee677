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
