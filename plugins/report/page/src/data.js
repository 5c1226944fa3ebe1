// The document of the page, and the two graphs in one form.

/** Decode the compressed document. */
export async function readDocument() {
  const text = document.getElementById("document").textContent.trim();
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

/**
 * The ONNX graph. A node has its row `id`, `label`, `path` (the modules around it), `inputs` (rows of the nodes that it reads),
 * `edges` (the type of the value from each of these), `peers` (rows of the captured graph) and `row`.
 */
export function onnxGraph(doc) {
  const producer = new Map();
  doc.nodes.forEach((row, id) => row.u.forEach((value) => producer.set(value, id)));
  const peers = doc.nodes.map(() => []);
  doc.captured.forEach((row, id) => row.x.forEach((each) => peers[each].push(id)));
  const nodes = doc.nodes.map((row, id) => {
    const read = row.i.filter((value) => producer.has(value));
    return {
      id, row, label: row.o, name: row.n || row.o, path: row.s, peers: peers[id],
      inputs: read.map((value) => producer.get(value)),
      edges: read.map((value) => doc.values[value].t),
      detail: row.u.length ? doc.values[row.u[0]].t : "",
      error: errorOf(doc, peers[id]),
    };
  });
  return graph("onnx", nodes);
}

/** The captured torch graph, in the same form; its peers are rows of the ONNX graph. */
export function torchGraph(doc) {
  const nodes = doc.captured.map((row, id) => ({
    id, row, label: row.o.replace(/^aten::/, ""), name: row.n, path: row.s, peers: row.x, inputs: row.i,
    edges: row.i.map((each) => typeOf(doc.captured[each])),
    detail: typeOf(row),
    error: row.st ? { status: row.st, local: row.le ?? 0, total: row.te ?? 0 } : null,
  }));
  return graph("torch", nodes);
}

function graph(kind, nodes) {
  const readers = nodes.map(() => []);
  nodes.forEach((node) => node.inputs.forEach((input) => readers[input].push(node.id)));
  return { kind, nodes, readers };
}

const typeOf = (row) => (row.r.length ? row.r[0].slice(row.r[0].indexOf(": ") + 2) : "");

/** Whether a node is wrong by itself, or missing from the ONNX graph. */
export const isFaulty = (status) => status === "fault" || status === "unsupported";

/** The worst error among captured nodes. */
function errorOf(doc, peers) {
  let worst = null;
  for (const id of peers) {
    const row = doc.captured[id];
    if (!row.st) continue;
    if (!worst || isFaulty(row.st) || (!isFaulty(worst.status) && (row.te ?? 0) > worst.total))
      worst = { status: row.st, local: row.le ?? 0, total: row.te ?? 0 };
  }
  return worst;
}

export const bytesText = (count) => {
  const power = Math.min(4, Math.max(0, Math.floor(Math.log10(Math.max(count, 1)) / 3)));
  return power ? `${(count / 1000 ** power).toFixed(1)} ${["", "kB", "MB", "GB", "TB"][power]}` : `${count} bytes`;
};

export const countText = (count) => count.toLocaleString("en");

export const errorText = (value) => (value === undefined ? "" : value >= 1e300 ? "infinite" : value === 0 ? "0" : value.toExponential(2));
