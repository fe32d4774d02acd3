// Charts as SVG: lines with bands, or bars, with axes, a legend, values under the pointer or by arrow keys, and a table.
//
// A chart is a plain object: { title, note, kind: "lines" | "bars", x, percent, range: [low, high] | null, labels: [...],
// series: [{ name, points: [[x, y], ...], band: [[low, high], ...] }] }. All text is set as text. Series differ in their dashes
// or hatching as well as in colour.

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 190;
const [TOP, RIGHT, BOTTOM] = [10, 12, 34];
const STYLES = 6; // of chart.css

const make = (name, attributes = {}, text = null) => {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  return element;
};

const html = (name, className, text = "") => {
  const element = document.createElement(name);
  if (className) element.className = className;
  element.textContent = text;
  return element;
};

/** Round numbers that cover low to high, about `count` of them. */
export function ticks(low, high, count = 4) {
  if (!(high > low)) return [low];
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((each) => each >= rough * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  const found = [];
  for (let number = first; number * step <= high + step * 1e-9; number += 1) found.push(number * step);
  return found;
}

/** A number as people read it: few digits, no rounding errors. */
export function shown(value, percent = false) {
  if (value === null || value === undefined || Number.isNaN(value)) return "-";
  if (percent) return `${Number((100 * value).toPrecision(3))} %`;
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return value.toExponential(2).replace(/\.?0+e/, "e");
  return Number(value.toPrecision(size >= 1000 ? 7 : 4)).toLocaleString("en", { maximumFractionDigits: 6 });
}

const known = (value) => value !== null && value !== undefined && Number.isFinite(value);

/** All x of a chart, in order, and each series' value at them. */
function columns(spec) {
  const xs = [...new Set(spec.series.flatMap((each) => each.points.map(([x]) => x)))].sort((a, b) => a - b);
  const at = spec.series.map((each) => new Map(each.points.map(([x, y], number) => [x, [y, each.band?.[number]]])));
  return { xs, at };
}

function extent(spec) {
  if (spec.range) return spec.range;
  const values = spec.series.flatMap((each) => [...each.points.map(([, y]) => y), ...(each.band ?? []).flat()]).filter(known);
  if (!values.length) return [0, 1];
  let [low, high] = [Math.min(...values), Math.max(...values)];
  if (spec.kind === "bars" || low >= 0) low = Math.min(0, low);
  if (high <= low) high = low + 1;
  return [low, high + (high - low) * 0.04];
}

class Chart {
  constructor(holder, spec) {
    this.holder = holder;
    this.at = null; // number of the x under the cursor
    this.readout = html("p", "readout");
    this.readout.setAttribute("aria-live", "polite");
    this.picture = html("div", "picture");
    this.legend = html("ul", "legend");
    this.numbers = html("details", "numbers");
    this.numbers.addEventListener("toggle", () => this.tabulate());
    holder.replaceChildren(html("figcaption", ""), html("p", "note dim"), this.picture, this.readout, this.legend, this.numbers);
    this.spec = spec;
    this.width = 0;
    new ResizeObserver(() => this.width !== this.picture.clientWidth && this.draw()).observe(this.picture);
    this.update(spec);
  }

  update(spec) {
    this.spec = spec;
    this.holder.querySelector("figcaption").textContent = spec.title;
    this.holder.querySelector(".note").textContent = spec.note ?? "";
    this.legend.replaceChildren(...(spec.series.length > 1 ? spec.series.map((each, number) => this.key(each, number)) : []));
    this.draw();
    this.tabulate();
  }

  key(series, number) {
    const item = html("li", "");
    const sample = make("svg", { viewBox: "0 0 26 10", "aria-hidden": "true", class: "sample" });
    const shape = this.spec.kind === "bars" ? { x: 2, y: 0, width: 22, height: 10 } : { x1: 0, y1: 5, x2: 26, y2: 5 };
    sample.append(make(this.spec.kind === "bars" ? "rect" : "line", { ...shape, class: `${this.spec.kind} k${number % STYLES}` }));
    item.append(sample, document.createTextNode(series.name));
    return item;
  }

  draw() {
    const { spec } = this;
    const { xs, at } = columns(spec);
    this.xs = xs;
    this.values = at;
    this.width = this.picture.clientWidth;
    if (!xs.length || !this.width) {
      this.picture.replaceChildren(...(this.width ? [html("p", "dim", "no data yet")] : []));
      return;
    }
    const [low, high] = extent(spec);
    const marks = ticks(low, high);
    const left = 12 + 7 * Math.max(...marks.map((each) => shown(each, spec.percent).length));
    let [first, last] = spec.kind === "bars" ? [-0.5, spec.labels.length - 0.5] : [xs[0], xs.at(-1)];
    if (first === last) [first, last] = [first - 1, last + 1]; // one point, in the middle
    const across = Math.max(1, this.width - left - RIGHT);
    this.x = (value) => left + (last > first ? (across * (value - first)) / (last - first) : across / 2);
    this.y = (value) => TOP + ((HEIGHT - TOP - BOTTOM) * (high - Math.min(high, Math.max(low, value)))) / (high - low);
    const label = `${spec.title}. Left and right arrow keys read the values.`;
    const svg = make("svg", { width: this.width, height: HEIGHT, role: "img", "aria-label": label, tabindex: 0, class: "chart" });
    svg.append(...this.axes(marks, [first, last]));
    const paint = spec.kind === "bars" ? this.bars : this.line;
    spec.series.forEach((each, number) => svg.append(...paint.call(this, each, number)));
    this.cursor = make("g", { class: "cursor" });
    svg.append(this.cursor);
    this.listen(svg);
    const focused = this.picture.contains(document.activeElement);
    this.picture.replaceChildren(svg);
    if (focused) svg.focus();
    if (this.at !== null) this.point(Math.min(this.at, xs.length - 1));
  }

  axes(marks, [first, last]) {
    const { spec } = this;
    const bottom = HEIGHT - BOTTOM;
    const parts = marks.flatMap((value) => [
      make("line", { class: "rule", x1: this.x(first), x2: this.x(last), y1: this.y(value), y2: this.y(value) }),
      make("text", { x: this.x(first) - 6, y: this.y(value) + 4, "text-anchor": "end" }, shown(value, spec.percent)),
    ]);
    const whole = this.xs.every(Number.isInteger);
    const places = ticks(first, last, Math.max(2, this.width / 90)).filter((value) => value >= this.xs[0] && (!whole || Number.isInteger(value)));
    const every = spec.kind === "bars" ? spec.labels.map((text, number) => [number, text]) : places.map((value) => [value, shown(value)]);
    const widest = 7 * Math.max(...every.map(([, text]) => text.length), 1) + 8;
    const skip = Math.max(1, Math.ceil((widest * every.length) / (this.x(last) - this.x(first) || 1)));
    for (const [value, text] of every.filter((_, number) => number % skip === 0)) {
      parts.push(make("text", { x: this.x(value), y: bottom + 14, "text-anchor": "middle" }, text));
    }
    parts.push(make("line", { class: "axis", x1: this.x(first), x2: this.x(last), y1: bottom, y2: bottom }));
    parts.push(make("text", { x: (this.x(first) + this.x(last)) / 2, y: HEIGHT - 4, "text-anchor": "middle" }, spec.x ?? ""));
    return parts;
  }

  line(series, number) {
    const style = `k${number % STYLES}`;
    const places = series.points.map(([x, y], at) => [x, y, series.band?.[at]]);
    const parts = [];
    const band = places.filter(([, , edge]) => edge && known(edge[0]) && known(edge[1]));
    if (band.length > 1) {
      const upper = band.map(([x, , [, high]]) => `${this.x(x)},${this.y(high)}`);
      const lower = band.map(([x, , [low]]) => `${this.x(x)},${this.y(low)}`).reverse();
      parts.push(make("polygon", { class: `band ${style}`, points: [...upper, ...lower].join(" ") }));
    }
    for (const [x, , [low, high]] of band.length <= 40 ? band : []) {
      parts.push(make("line", { class: `whisker ${style}`, x1: this.x(x), x2: this.x(x), y1: this.y(low), y2: this.y(high) }));
    }
    let path = "";
    let drawing = false;
    for (const [x, y] of places) {
      path += known(y) ? `${drawing ? "L" : "M"}${this.x(x).toFixed(1)} ${this.y(y).toFixed(1)}` : "";
      drawing = known(y);
    }
    parts.push(make("path", { class: `lines ${style}`, d: path }));
    if (places.length <= 40) {
      for (const [x, y] of places.filter(([, value]) => known(value))) {
        parts.push(make("circle", { class: `dot ${style}`, cx: this.x(x), cy: this.y(y), r: 2.5 }));
      }
    }
    return parts;
  }

  bars(series, number) {
    const count = this.spec.series.length;
    const wide = ((this.x(1) - this.x(0)) * 0.8) / count;
    return series.points.flatMap(([x, y], at) => {
      if (!known(y)) return [];
      const from = this.x(x) - (wide * count) / 2 + wide * number;
      const [top, base] = [this.y(Math.max(0, y)), this.y(Math.min(0, y))];
      const bar = { x: from, y: top, width: Math.max(1, wide), height: Math.max(y ? 1 : 0, base - top) };
      const parts = [make("rect", { class: `bars k${number % STYLES}`, ...bar })];
      const edge = series.band?.[at];
      if (edge && known(edge[0])) {
        const middle = from + wide / 2;
        parts.push(make("line", { class: "whisker", x1: middle, x2: middle, y1: this.y(edge[0]), y2: this.y(edge[1]) }));
      }
      return parts;
    });
  }

  listen(svg) {
    svg.addEventListener("pointermove", (event) => {
      const place = event.clientX - svg.getBoundingClientRect().left;
      let nearest = 0;
      this.xs.forEach((x, number) => {
        if (Math.abs(this.x(x) - place) < Math.abs(this.x(this.xs[nearest]) - place)) nearest = number;
      });
      this.point(nearest);
    });
    svg.addEventListener("pointerleave", () => this.point(null));
    svg.addEventListener("focus", () => this.at === null && this.point(this.xs.length - 1));
    svg.addEventListener("blur", () => this.point(null));
    svg.addEventListener("keydown", (event) => {
      const end = this.xs.length - 1;
      const now = this.at ?? end;
      const next = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: end }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      this.point(Math.max(0, Math.min(end, next)));
    });
  }

  /** Show the values at one x; none if it is null. */
  point(at) {
    this.at = at;
    this.cursor.replaceChildren();
    if (at === null) {
      this.readout.textContent = "";
      return;
    }
    const x = this.xs[at];
    if (this.spec.kind === "lines") {
      this.cursor.append(make("line", { class: "rule", x1: this.x(x), x2: this.x(x), y1: TOP, y2: HEIGHT - BOTTOM }));
      this.values.forEach((values, number) => {
        const [y] = values.get(x) ?? [null];
        if (known(y)) this.cursor.append(make("circle", { class: `dot k${number % STYLES}`, cx: this.x(x), cy: this.y(y), r: 4 }));
      });
    }
    this.readout.textContent = `${this.name(x)}: ${this.spec.series.map((each, number) => this.words(each, number, x)).join(", ")}`;
  }

  name(x) {
    return this.spec.kind === "bars" ? this.spec.labels[x] : `${this.spec.x ?? ""} ${shown(x)}`.trim();
  }

  words(series, number, x) {
    const [y, band] = this.values[number].get(x) ?? [null];
    const edge = band && known(band[0]) ? ` (${shown(band[0], this.spec.percent)} to ${shown(band[1], this.spec.percent)})` : "";
    return `${series.name} ${shown(y, this.spec.percent)}${edge}`;
  }

  /** The same numbers as a table, filled when it is opened. */
  tabulate() {
    if (!this.numbers.firstChild) this.numbers.append(html("summary", "dim", "numbers"));
    this.numbers.querySelector("div")?.remove();
    if (!this.numbers.open) return;
    const table = html("table", "");
    const head = table.createTHead().insertRow();
    const heads = [this.spec.kind === "bars" ? "" : (this.spec.x ?? ""), ...this.spec.series.map((each) => each.name)];
    for (const name of heads) {
      const cell = html("th", "", name);
      cell.scope = "col";
      head.append(cell);
    }
    const body = table.createTBody();
    (this.xs ?? []).forEach((x) => {
      const row = body.insertRow();
      row.insertCell().textContent = this.name(x);
      this.spec.series.forEach((each, number) => {
        row.insertCell().textContent = this.words(each, number, x).slice(each.name.length + 1);
      });
    });
    const box = html("div", "rows");
    box.append(table);
    this.numbers.append(box);
  }
}

/** Draw a chart into an element; the answer's `update(spec)` draws it again with other numbers. */
export function drawChart(holder, spec) {
  return new Chart(holder, spec);
}

/** Draw every element that has its chart in `data-chart`. */
export function drawCharts(root = document) {
  for (const holder of root.querySelectorAll("[data-chart]")) drawChart(holder, JSON.parse(holder.dataset.chart));
}

/** Draw a list of charts into `holder`, one figure each; called again, it updates them. */
export function drawList(holder, specs) {
  holder.charts ??= [];
  specs.forEach((spec, number) => {
    if (holder.charts[number]) {
      holder.charts[number].update(spec);
      return;
    }
    const figure = document.createElement("figure");
    holder.append(figure);
    holder.charts.push(drawChart(figure, spec));
  });
  for (const chart of holder.charts.splice(specs.length)) chart.holder.remove();
}
