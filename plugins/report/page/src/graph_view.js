// One graph on a canvas: pan, zoom, open and close modules, select nodes with the mouse or the keyboard.
import { select } from "d3-selection";
import { zoom, zoomIdentity } from "d3-zoom";
import { draw } from "./drawing.js";
import { ancestors, buildTree } from "./hierarchy.js";
import { layOut } from "./layout.js";

const OPEN_AT_FIRST = 90; // a level of groups is opened at the start while no more boxes than this are visible

export class GraphView {
  /** `onSelect(node)` is called with a node, or null. */
  constructor(host, graph, onSelect) {
    this.graph = graph;
    this.onSelect = onSelect;
    this.tree = buildTree(graph);
    this.open = new Set();
    this.selected = null;
    this.marked = new Set();
    this.markedGroups = new Set();
    this.mode = "operator";
    this.canvas = document.createElement("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", `${graph.kind === "onnx" ? "ONNX" : "torch"} graph: arrow keys move, Enter opens a module`);
    host.append(this.canvas);
    this.transform = zoomIdentity;
    this.zoom = zoom().scaleExtent([0.01, 3]).on("zoom", ({ transform }) => { this.transform = transform; this.redraw(); });
    select(this.canvas).call(this.zoom).on("dblclick.zoom", null);
    this.canvas.addEventListener("click", (event) => this.click(event));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.resize()).observe(host);
    this.openSome();
    this.layout();
  }

  /** Open modules, level by level, while the picture stays small. */
  openSome() {
    let level = [this.tree.root], visible = this.tree.root.items.length;
    while (level.length) {
      const groups = level.flatMap((each) => each.items.filter((item) => item.isGroup));
      visible += groups.reduce((sum, group) => sum + group.items.length, 0);
      if (visible > OPEN_AT_FIRST && groups.length > 1) return;
      groups.forEach((group) => this.open.add(group.key));
      level = groups;
    }
  }

  layout() {
    this.box = layOut(this.graph, this.tree, this.open);
    this.places = new Map();
    const note = (box, x, y) => {
      this.places.set(box.item, { x, y, width: box.width, height: box.height });
      for (const inner of box.boxes ?? []) note(inner, x + inner.x, y + inner.y);
    };
    note(this.box, 0, 0);
    this.redraw();
  }

  resize() {
    const { clientWidth, clientHeight } = this.canvas.parentElement;
    const ratio = window.devicePixelRatio || 1;
    const before = this.width;
    [this.width, this.height] = [clientWidth, clientHeight];
    if (!this.width || !this.height) return;
    this.canvas.width = this.width * ratio;
    this.canvas.height = this.height * ratio;
    if (!before) this.fit();
    else this.zoom.translateBy(select(this.canvas), (this.width - before) / 2 / this.transform.k, 0);
    if (this.wanted) this.center(this.wanted);
    this.redraw();
  }

  redraw() {
    if (this.frame || !this.width) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.drawn = draw(this);
    });
  }

  /** Show the whole graph, or the top of a tall one at a size that can be read. */
  fit() {
    if (!this.width) return;
    const whole = Math.min(this.width / (this.box.width + 60), this.height / (this.box.height + 60));
    const scale = Math.min(1, Math.max(whole, Math.min(0.55, this.width / (this.box.width + 60))));
    const y = whole < scale ? 24 : (this.height - this.box.height * scale) / 2;
    this.move(zoomIdentity.translate((this.width - this.box.width * scale) / 2, y).scale(scale));
  }

  move(transform) {
    select(this.canvas).call(this.zoom.transform, transform);
  }

  /** Bring an item into view. */
  center(item) {
    const place = this.places.get(item);
    this.wanted = item; // until the canvas has a size
    if (!place || !this.width) return;
    const scale = Math.max(this.transform.k, 0.7);
    const [x, y] = [place.x + place.width / 2, place.y + Math.min(place.height, 60) / 2];
    this.move(zoomIdentity.translate(this.width / 2 - x * scale, this.height / 2 - y * scale).scale(scale));
  }

  /** Select a node, open the modules around it, and bring it into view. */
  show(node) {
    let closed = false;
    for (const group of ancestors(node)) {
      closed ||= !this.open.has(group.key);
      this.open.add(group.key);
    }
    this.selected = node;
    if (closed) this.layout();
    this.center(node);
    this.redraw();
  }

  /** Highlight nodes by their rows, and bring the first one into view; closed modules around them stay closed. */
  mark(rows) {
    this.marked = new Set(rows);
    this.markedGroups = new Set(rows.flatMap((row) => ancestors(this.graph.nodes[row])).filter((group) => !this.open.has(group.key)));
    if (rows.length) {
      const node = this.graph.nodes[rows[0]];
      const visible = [node, ...ancestors(node).reverse()].find((item) => this.places.has(item));
      if (visible) this.center(visible);
    }
    this.redraw();
  }

  toggle(group) {
    if (this.open.has(group.key)) this.open.delete(group.key);
    else this.open.add(group.key);
    const before = this.places.get(group);
    const at = before && this.transform.apply([before.x, before.y]);
    this.layout();
    const after = this.places.get(group);
    if (at && after) // the group stays where it was on the screen
      this.move(zoomIdentity.translate(at[0] - after.x * this.transform.k, at[1] - after.y * this.transform.k).scale(this.transform.k));
  }

  openAll(all) {
    this.open = new Set(all ? this.tree.byKey.keys() : []);
    this.layout();
    this.fit();
  }

  click(event) {
    const bounds = this.canvas.getBoundingClientRect();
    const [x, y] = this.transform.invert([event.clientX - bounds.left, event.clientY - bounds.top]);
    const item = this.hit(x, y);
    if (item?.isGroup) this.toggle(item);
    this.selected = item;
    this.onSelect(item && !item.isGroup ? item : null);
    this.redraw();
  }

  /** The innermost item at a place; of an open group only its title bar counts. */
  hit(x, y) {
    const inside = (box, left, top) => {
      for (const inner of box.boxes ?? []) {
        const [l, t] = [left + inner.x, top + inner.y];
        if (x < l || y < t || x > l + inner.width || y > t + inner.height) continue;
        if (inner.open) return inside(inner, l, t) ?? (y < t + 30 ? inner.item : null);
        return inner.item;
      }
      return null;
    };
    return inside(this.box, 0, 0);
  }

  key(event) {
    const moves = { ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowRight: [1, 0], ArrowLeft: [-1, 0] };
    if (event.key in moves) this.step(...moves[event.key]);
    else if (event.key === "Enter" && this.selected?.isGroup) this.toggle(this.selected);
    else if (event.key === "+" || event.key === "-") select(this.canvas).call(this.zoom.scaleBy, event.key === "+" ? 1.25 : 0.8);
    else if (event.key === "0") this.fit();
    else return;
    event.preventDefault();
  }

  /** Select the nearest visible item in a direction. */
  step(dx, dy) {
    const from = this.places.get(this.selected) ?? { x: this.box.width / 2, y: -1, width: 0, height: 0 };
    const [x, y] = [from.x + from.width / 2, from.y + Math.min(from.height, 34) / 2];
    let best = null, least = Infinity;
    for (const [item, place] of this.places) {
      if (item === this.selected || item === this.tree.root) continue;
      const [ox, oy] = [place.x + place.width / 2 - x, place.y + Math.min(place.height, 34) / 2 - y];
      const along = dx * ox + dy * oy, across = Math.abs(dx * oy) + Math.abs(dy * ox);
      if (along > 1 && along + 2 * across < least) [best, least] = [item, along + 2 * across];
    }
    if (!best) return;
    this.selected = best;
    this.center(best);
    this.onSelect(best.isGroup ? null : best);
  }
}
