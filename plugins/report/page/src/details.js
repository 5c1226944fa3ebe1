// The panel about one node: what it is, where it comes from, its counterparts, its values, its error.
import { bytesText, countText, errorText, isFaulty } from "./data.js";
import { button, element, pairs } from "./dom.js";
import { histogram } from "./plots.js";

/** Fill the panel for a node of a graph; `go(kind, row)` shows another node. */
export function showDetails(panel, doc, kind, node, go) {
  panel.replaceChildren();
  if (!node) {
    panel.append(element("p", { class: "hint" }, "Click a node to see where it comes from, and its counterparts in the other graph. Click a module to open or close it."));
    return;
  }
  panel.append(element("h2", {}, kind === "onnx" ? node.row.o : node.row.o), element("p", { class: "path" }, node.name));
  panel.append(...(kind === "onnx" ? onnxParts(doc, node, go) : torchParts(doc, node, go)));
}

function onnxParts(doc, node, go) {
  const { row } = node;
  const maker = row.b ? `the pass ${row.b}` : row.y ? `${row.y} (plugin ${row.p})` : row.t ? "the core" : "";
  return [
    errorPart(doc, node.peers),
    pairs([["module", moduleText(row.s, row.m)], ["source", row.l], ["torch", row.t], ["made by", maker], ["domain", row.d]]),
    links("Captured from", node.peers.map((id) => [`${doc.captured[id].o.replace(/^aten::/, "")}  %${doc.captured[id].n}`, () => go("torch", id)])),
    attributesPart(row.a ?? {}),
    valuesPart("Inputs", doc, row.i, node, go),
    valuesPart("Outputs", doc, row.u, null, go),
    weightsPart(doc, row.i),
  ].filter(Boolean);
}

function torchParts(doc, node, go) {
  const { row } = node;
  const made = row.x.map((id) => [`${doc.nodes[id].o}  ${doc.nodes[id].n}`, () => go("onnx", id)]);
  return [
    errorPart(doc, [node.id]),
    pairs([["module", moduleText(row.s)], ["source", row.f ? `${row.f}:${row.l}` : ""]]),
    row.z ? element("pre", {}, row.z) : null,
    element("h3", {}, "Call"), element("pre", {}, row.c),
    made.length ? links("Lowered to", made) : element("p", { class: "hint" }, "No ONNX node of its own: folded into another one, or a constant."),
    links("Reads", row.i.map((id) => [`%${doc.captured[id].n}`, () => go("torch", id)])),
  ].filter(Boolean);
}

const moduleText = (path, name) => [path.replaceAll("/", "."), name ? `(${name})` : ""].filter(Boolean).join(" ");

function errorPart(doc, captured) {
  const rows = captured.map((id) => doc.captured[id]).filter((row) => row.st);
  if (!rows.length) return null;
  const worst = rows.find((row) => isFaulty(row.st)) ?? rows.reduce((one, other) => ((other.te ?? 0) > (one.te ?? 0) ? other : one));
  const words = { ok: "agrees with torch", fault: "differs from torch by itself", merged: "covered by a later node", unchecked: "not compared", unsupported: "no plugin lowers it: see the overview" };
  return element("div", { class: `verdict ${isFaulty(worst.st) ? "fault" : worst.st}` },
    element("strong", {}, words[worst.st]),
    worst.te === undefined ? null : element("p", {}, `max abs error ${errorText(worst.te)}, of this node alone ${errorText(worst.le ?? 0)}`),
    worst.pr ? element("p", {}, worst.pr) : null, worst.nt ? element("p", {}, worst.nt) : null);
}

function links(title, entries) {
  if (!entries.length) return null;
  return element("section", {}, element("h3", {}, title),
    element("ul", { class: "links" }, entries.slice(0, 40).map(([text, onclick]) => element("li", {}, button(text, onclick)))));
}

function attributesPart(attributes) {
  const entries = Object.entries(attributes);
  return entries.length ? element("section", {}, element("h3", {}, "Attributes"), pairs(entries)) : null;
}

function valuesPart(title, doc, values, node, go) {
  const shown = values.filter((value) => value >= 0);
  if (!shown.length) return null;
  const producer = new Map((node?.inputs ?? []).map((input) => [input, doc.nodes[input].u]));
  return element("section", {}, element("h3", {}, title), element("ul", { class: "values" }, shown.slice(0, 40).map((value) => {
    const { n, t } = doc.values[value];
    const source = [...producer].find(([, made]) => made.includes(value));
    return element("li", {}, source ? button(`%${n}`, () => go("onnx", source[0])) : element("span", {}, `%${n}`), element("code", {}, t));
  })));
}

function weightsPart(doc, values) {
  const rows = values.filter((value) => value >= 0 && doc.values[value].w !== undefined).map((value) => doc.weights[doc.values[value].w]);
  if (!rows.length) return null;
  return element("section", {}, element("h3", {}, "Weights"), rows.map(weightCard));
}

/** A weight with its statistics and the histogram of its values. */
export function weightCard(row) {
  return element("div", { class: "weight" },
    element("p", {}, element("strong", {}, row.n), ` ${row.d}[${row.s.join(", ")}], ${bytesText(row.b)}`),
    row.h ? histogram(row) : null,
    row.h ? element("p", { class: "hint" }, `mean ${row.mu.toPrecision(3)}, deviation ${row.sd.toPrecision(3)}` + (row.nan ? `, ${countText(row.nan)} not finite` : "")) : null);
}
