// Modules as nested groups, and the items that are visible while some groups are open.
import { isFaulty } from "./data.js";

const LARGEST = 120; // a level with more items is split into numbered parts, which open like modules
const PART = 100;

/** The tree of groups: each has `key`, `label`, `parent`, `groups` (by name), `items` (nodes and groups in order), `count`. */
export function buildTree(graph) {
  const root = group("", "", null);
  const byKey = new Map([["", root]]);
  for (const node of graph.nodes) {
    let at = root;
    for (const part of node.path ? node.path.split("/") : []) {
      if (!at.groups.has(part)) {
        const made = group(at.key ? `${at.key}/${part}` : part, part, at);
        at.groups.set(part, made);
        at.items.push(made);
        byKey.set(made.key, made);
      }
      at = at.groups.get(part);
    }
    at.items.push(node);
    node.parent = at;
  }
  splitLarge(root, byKey);
  countNodes(root);
  return { root, byKey };
}

function group(key, label, parent) {
  return { key, label, parent, isGroup: true, groups: new Map(), items: [], count: 0, fault: false, error: 0 };
}

function splitLarge(at, byKey) {
  at.items.filter((item) => item.isGroup).forEach((item) => splitLarge(item, byKey));
  if (at.items.length <= LARGEST) return;
  let parts = at.items;
  while (parts.length > LARGEST) {
    const size = Math.max(PART, Math.ceil(parts.length / LARGEST));
    const made = [];
    for (let first = 0; first < parts.length; first += size) {
      const inside = parts.slice(first, first + size);
      const part = group(`${at.key}#${made.length}.${parts.length}`, `part ${made.length + 1}`, at);
      part.items = inside;
      inside.forEach((item) => (item.parent = part));
      byKey.set(part.key, part);
      made.push(part);
    }
    parts = made;
  }
  at.items = parts;
}

function countNodes(at) {
  for (const item of at.items) {
    if (item.isGroup) countNodes(item);
    at.count += item.isGroup ? item.count : 1;
    at.fault ||= item.isGroup ? item.fault : isFaulty(item.error?.status);
    at.error = Math.max(at.error, item.isGroup ? item.error : item.error?.total ?? 0);
  }
}

/** The groups around an item, the outermost first. */
export function ancestors(item) {
  const found = [];
  for (let at = item.parent; at && at.parent !== undefined && at.key !== ""; at = at.parent) found.unshift(at);
  return found;
}

/** The child of `level` that a node is in, or null. */
export function childOf(level, node) {
  let at = node;
  while (at && at.parent !== level) at = at.parent;
  return at;
}
