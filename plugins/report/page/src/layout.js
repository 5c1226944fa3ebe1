// Positions of nodes and groups: dagre for each open group, from the inside out.
import dagre from "@dagrejs/dagre";
import { childOf } from "./hierarchy.js";

const NODE = { height: 34, least: 84, letter: 7.2 };
const GROUP = { top: 34, side: 16, bottom: 16 };

/**
 * Lay out the open groups. Returns the box of the root; a box has `item`, `x`, `y` (its top left in its parent), `width`,
 * `height`, and, where its group is open, `boxes` and `lines`.
 */
export function layOut(graph, tree, open) {
  return layOutGroup(graph, tree.root, open, true);
}

function layOutGroup(graph, group, open, isRoot = false) {
  const boxes = group.items.map((item) =>
    item.isGroup && open.has(item.key) ? layOutGroup(graph, item, open) : closedBox(item));
  const edges = levelEdges(graph, group);
  const inside = isChain(boxes.length, edges) ? placeChain(boxes, edges) : placeByDagre(boxes, edges);
  const top = isRoot ? 0 : GROUP.top, title = isRoot ? 0 : 60 + group.label.length * 8;
  const side = isRoot ? 0 : Math.max(GROUP.side, (title - inside.width) / 2);
  for (const box of boxes) (box.x += side), (box.y += top);
  for (const line of inside.lines) for (const point of line.points) (point.x += side), (point.y += top);
  const width = inside.width + 2 * side;
  return { item: group, x: 0, y: 0, width, height: inside.height + top + (isRoot ? 0 : GROUP.bottom), boxes, lines: inside.lines, open: true };
}

function closedBox(item) {
  const letters = item.isGroup ? item.label.length * 1.12 + String(item.count).length + 6 : item.label.length;
  const width = Math.max(NODE.least, letters * NODE.letter + 28);
  return { item, x: 0, y: 0, width, height: item.isGroup ? 42 : NODE.height };
}

/** The edges between the children of a group, one for each pair, with the type of the first value. */
function levelEdges(graph, group) {
  const found = new Map();
  const place = new Map(group.items.map((item, index) => [item, index]));
  for (const item of group.items) for (const node of nodesIn(item)) {
    node.inputs.forEach((input, position) => {
      const source = childOf(group, graph.nodes[input]);
      if (!source || source === item) return;
      const key = `${place.get(source)}>${place.get(item)}`;
      const known = found.get(key);
      if (known) known.count += 1;
      else found.set(key, { from: place.get(source), to: place.get(item), text: node.edges[position], count: 1 });
    });
  }
  return [...found.values()];
}

export function* nodesIn(item) {
  if (!item.isGroup) yield item;
  else for (const inner of item.items) yield* nodesIn(inner);
}

/** Whether each item reads at most the one before it: such a level needs no search for an order. */
function isChain(count, edges) {
  return count > 40 && edges.every((edge) => edge.to === edge.from + 1);
}

function placeChain(boxes, edges) {
  const width = Math.max(...boxes.map((box) => box.width));
  let y = 0;
  for (const box of boxes) {
    box.x = (width - box.width) / 2;
    box.y = y;
    y += box.height + 34;
  }
  const lines = edges.map((edge) => ({ ...edge, points: [
    { x: width / 2, y: boxes[edge.from].y + boxes[edge.from].height }, { x: width / 2, y: boxes[edge.to].y }] }));
  return { width, height: y - 34, lines };
}

function placeByDagre(boxes, edges) {
  const sketch = new dagre.graphlib.Graph();
  sketch.setGraph({ rankdir: "TB", nodesep: 22, ranksep: 34, edgesep: 12, ranker: boxes.length > 60 ? "longest-path" : "network-simplex" });
  sketch.setDefaultEdgeLabel(() => ({}));
  boxes.forEach((box, index) => sketch.setNode(index, { width: box.width, height: box.height }));
  for (const edge of edges) if (edge.from !== edge.to) sketch.setEdge(edge.from, edge.to, {});
  dagre.layout(sketch);
  boxes.forEach((box, index) => {
    const { x, y } = sketch.node(index);
    box.x = x - box.width / 2;
    box.y = y - box.height / 2;
  });
  const lines = edges.filter((edge) => edge.from !== edge.to)
    .map((edge) => ({ ...edge, points: sketch.edge(edge.from, edge.to).points.map(({ x, y }) => ({ x, y })) }));
  const { width, height } = sketch.graph();
  return { width: Math.max(width, 10), height: Math.max(height, 10), lines };
}
