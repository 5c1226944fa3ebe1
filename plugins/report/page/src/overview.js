// The first tab: what the model is, how it was made, and the plots of sizes, times and errors.
import { bytesText, countText } from "./data.js";
import { button, element, pairs } from "./dom.js";
import { bars, errorPlot, sizeMap } from "./plots.js";

export function overviewTab(page, host) {
  const { doc } = page;
  const { summary } = doc;
  const width = Math.min(560, Math.max(280, document.body.clientWidth - 64));
  host.append(...[
    element("div", { class: "figures" },
      figure(countText(summary.nodes), "ONNX nodes"), figure(countText(doc.captured.length), "captured nodes"),
      figure(countText(summary.parameters), "parameters"), figure(bytesText(summary.bytes), "of weights"),
      figure(seconds(doc.timings), "seconds to export")),
    verdict(page), problems(page),
    element("div", { class: "cards" },
      card("Inputs and outputs", declared("inputs", summary.inputs), declared("outputs", summary.outputs)),
      card("Made by", pairs([
        ["onnxexp", summary.onnxexp], ["ONNX IR", summary.ir_version],
        ...Object.entries(summary.opsets).map(([domain, version]) => [domain, `opset ${version}`]),
        ...summary.plugins.map(([name, version]) => [name, version || "passed to the call"]), ...Object.entries(summary.metadata)])),
      doc.weights.length ? card("Size of the weights by module", sizeMap(doc.weights, width, 300)) : null,
      card("Seconds by stage", bars(doc.timings.filter(([, spent]) => spent > 0.0005), width, (spent) => spent.toFixed(2))),
      doc.profile ? card("ONNX Runtime's milliseconds by operator", bars(doc.profile.operators.slice(0, 14).map(([name, spent]) => [name, spent]), width, (spent) => spent.toFixed(3))) : null,
      doc.mismatch ? card("Error along the graph", errorPlot(doc.captured, width, (row) => page.show("torch", row))) : null,
      warnings(doc))].filter(Boolean));
}

const seconds = (timings) => timings.reduce((sum, [, spent]) => sum + spent, 0).toFixed(2);
const figure = (value, words) => element("div", { class: "figure" }, element("strong", {}, value), element("span", {}, words));
const card = (title, ...contents) => element("section", { class: "card" }, element("h2", {}, title), ...contents);

function declared(title, values) {
  return [element("h3", {}, title), element("ul", { class: "values" }, values.map(([name, type]) =>
    element("li", {}, element("span", {}, name), element("code", {}, type))))];
}

function verdict(page) {
  const { mismatch } = page.doc;
  if (!mismatch) return null;
  return element("section", { class: `verdict ${mismatch.ok ? "ok" : "fault"}` }, element("pre", {}, mismatch.text),
    mismatch.first ? button("show the first fault", () => page.open("Graph").show(...firstFault(page))) : null);
}

function firstFault({ doc }) {
  const row = doc.captured.findIndex((each) => each.n === doc.mismatch.first);
  const [onnx] = doc.captured[row].x.slice(-1);
  return onnx === undefined ? ["torch", row] : ["onnx", onnx];
}

function problems(page) {
  const { doc } = page;
  if (!doc.problems.length) return null;
  const first = doc.captured.findIndex((row) => row.st === "unsupported");
  return element("section", { class: "verdict fault" }, element("h2", {}, "Operators that could not be exported"),
    doc.problems.map((text) => element("pre", {}, text)), button("show the first in the graph", () => page.show("torch", first)));
}

function warnings(doc) {
  if (!doc.warnings.length) return null;
  return card("Warnings of the export", element("ul", { class: "warnings" }, doc.warnings.map((text) => element("li", {}, element("pre", {}, text)))));
}
