// Draw what is in view. Far away, nodes are plain rectangles: letters would be too small to read.
import { colour, errorColour, operatorColour } from "./colours.js";
import { isFaulty } from "./data.js";

const READABLE = 0.32;

/** Draw a view; returns the number of boxes drawn. */
export function draw(view) {
  const pen = view.canvas.getContext("2d");
  const { k, x, y } = view.transform;
  const ratio = window.devicePixelRatio || 1;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, view.width, view.height);
  pen.setTransform(ratio * k, 0, 0, ratio * k, ratio * x, ratio * y);
  const window_ = { left: -x / k, top: -y / k, right: (view.width - x) / k, bottom: (view.height - y) / k };
  const scene = { pen, view, k, window: window_, count: 0, near: k > READABLE };
  drawInside(scene, view.box, 0, 0, 0);
  return scene.count;
}

function drawInside(scene, box, left, top, depth) {
  drawLines(scene, box, left, top);
  for (const inner of box.boxes) {
    const [x, y] = [left + inner.x, top + inner.y];
    if (!isVisible(scene.window, x, y, inner.width, inner.height)) continue;
    scene.count += 1;
    if (inner.open) {
      drawFrame(scene, inner, x, y, depth);
      drawInside(scene, inner, x, y, depth + 1);
    } else drawBox(scene, inner, x, y);
  }
}

const isVisible = (window_, x, y, width, height) =>
  x + width >= window_.left && y + height >= window_.top && x <= window_.right && y <= window_.bottom;

function drawLines({ pen, window: seen, near, view }, box, left, top) {
  const rows = selectedPlaces(view, box);
  for (const line of box.lines) {
    const first = line.points[0], last = line.points.at(-1);
    const [low, high] = [Math.min(first.y, last.y) + top, Math.max(first.y, last.y) + top];
    if (high < seen.top || low > seen.bottom) continue;
    const chosen = rows.has(line.from) || rows.has(line.to);
    pen.strokeStyle = colour(chosen ? "--accent" : "--edge");
    pen.lineWidth = chosen ? 2 : 1.2;
    curve(pen, line.points, left, top);
    if (!near) continue;
    arrow(pen, line.points, left, top);
    if (line.text) edgeLabel(pen, line, left, top);
  }
}

/** The places of the selected item among the boxes of a level. */
function selectedPlaces(view, box) {
  const found = new Set();
  if (view.selected) box.boxes.forEach((inner, index) => inner.item === view.selected && found.add(index));
  return found;
}

function curve(pen, points, left, top) {
  pen.beginPath();
  pen.moveTo(points[0].x + left, points[0].y + top);
  for (let index = 1; index < points.length - 1; index += 1) {
    const [here, next] = [points[index], points[index + 1]];
    pen.quadraticCurveTo(here.x + left, here.y + top, (here.x + next.x) / 2 + left, (here.y + next.y) / 2 + top);
  }
  pen.lineTo(points.at(-1).x + left, points.at(-1).y + top);
  pen.stroke();
}

function arrow(pen, points, left, top) {
  const end = points.at(-1), before = points.at(-2);
  const angle = Math.atan2(end.y - before.y, end.x - before.x);
  pen.fillStyle = pen.strokeStyle;
  pen.beginPath();
  pen.moveTo(end.x + left, end.y + top);
  for (const side of [-0.4, 0.4]) pen.lineTo(end.x + left - 8 * Math.cos(angle + side), end.y + top - 8 * Math.sin(angle + side));
  pen.fill();
}

function edgeLabel(pen, line, left, top) {
  const middle = line.points[Math.floor(line.points.length / 2)];
  const other = line.points[Math.floor((line.points.length - 1) / 2)];
  const [x, y] = [(middle.x + other.x) / 2 + left, (middle.y + other.y) / 2 + top];
  const text = line.text.replace(/^float32/, "").replace(/ /g, "") + (line.count > 1 ? ` +${line.count - 1}` : "");
  pen.font = "10px ui-monospace, monospace";
  const width = pen.measureText(text).width;
  pen.fillStyle = colour("--canvas");
  pen.fillRect(x - width / 2 - 2, y - 7, width + 4, 14);
  pen.fillStyle = colour("--muted");
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.fillText(text, x, y);
}

function drawFrame({ pen, view, near }, box, x, y, depth) {
  rounded(pen, x, y, box.width, box.height, 10);
  pen.fillStyle = colour(depth % 2 ? "--group-odd" : "--group-even");
  pen.fill();
  outline(pen, view, box.item, 1);
  if (!near) return;
  pen.textAlign = "left";
  pen.textBaseline = "middle";
  pen.font = "600 12px system-ui, sans-serif";
  pen.fillStyle = colour("--muted");
  pen.fillText(`\u2212  ${box.item.label}`, x + 12, y + 17);
}

function drawBox({ pen, view, near }, box, x, y) {
  const { item } = box;
  rounded(pen, x, y, box.width, box.height, item.isGroup ? 10 : 7);
  const errors = view.mode === "error";
  pen.fillStyle = errors ? errorColour(isFault(item), errorOf(item), isKnown(item))
    : item.isGroup ? colour("--group-closed") : operatorColour(item.label);
  pen.fill();
  if (item.isGroup || isMarked(view, item) || view.selected === item) outline(pen, view, item, item.isGroup ? 1.5 : 1);
  if (!near) return;
  pen.textBaseline = "middle";
  pen.fillStyle = item.isGroup && !errors ? colour("--text") : colour("--on-op");
  pen.font = `${item.isGroup ? "600 " : ""}13px system-ui, sans-serif`;
  if (item.isGroup) {
    pen.textAlign = "left";
    pen.fillText(`+  ${item.label}`, x + 12, y + box.height / 2);
    pen.textAlign = "right";
    pen.font = "11px system-ui, sans-serif";
    pen.fillText(String(item.count), x + box.width - 10, y + box.height / 2);
  } else {
    pen.textAlign = "center";
    pen.fillText(item.label, x + box.width / 2, y + box.height / 2);
  }
}

const isFault = (item) => (item.isGroup ? item.fault : isFaulty(item.error?.status));
const errorOf = (item) => (item.isGroup ? item.error : item.error?.total ?? 0);
const isKnown = (item) => item.isGroup || (item.error && item.error.status !== "unchecked");

function isMarked(view, item) {
  if (!view.marked.size) return false;
  return item.isGroup ? view.markedGroups.has(item) : view.marked.has(item.id);
}

function outline(pen, view, item, width) {
  const chosen = view.selected === item, marked = isMarked(view, item);
  pen.strokeStyle = colour(chosen ? "--accent" : marked ? "--marked" : isFault(item) && view.mode === "error" ? "--fault" : "--frame");
  pen.lineWidth = chosen || marked ? 3 : width;
  pen.stroke();
}

function rounded(pen, x, y, width, height, radius) {
  pen.beginPath();
  pen.roundRect(x, y, width, height, radius);
}
