// Tables that sort and filter: operators, nodes, weights.
import { TabulatorFull as Tabulator } from "tabulator-tables";
import { bytesText, errorText } from "./data.js";

/** Fill an element with a table of rows; `onclick(row)` is called with the row's object. */
export function table(host, columns, rows, onclick) {
  const made = new Tabulator(host, {
    data: rows, layout: "fitColumns", height: Math.min(560, 96 + rows.length * 34), renderVertical: "virtual",
    columnDefaults: { headerFilter: "input", headerFilterPlaceholder: "filter", resizable: true, minWidth: 90 },
    columns, placeholder: "nothing",
  });
  if (onclick) {
    made.on("rowClick", (event, row) => onclick(row.getData()));
    host.classList.add("clickable");
  }
  return made;
}

export const number = (title, field, format) => ({
  title, field, sorter: "number", hozAlign: "right", headerFilter: false, minWidth: 80, widthGrow: 0.6,
  formatter: format ? (cell) => format(cell.getValue()) : undefined,
});

export const text = (title, field, grow = 1) => ({ title, field, widthGrow: grow, formatter: "plaintext" });

export const bytes = (title, field) => number(title, field, (value) => bytesText(value ?? 0));
export const error = (title, field) => number(title, field, (value) => errorText(value));
