"use strict";

// What building took: a bar for the time, in its parts, and one for the size of each built index.

const PARTS = [
  ["loading", "loading"],
  ["clustering", "clustering"],
  ["indexing", "index"],
];
const FEW_BARS = 12;

class Builds {
  constructor(root, site) {
    Object.assign(this, { root, site, isWhole: false });
    this.draw();
    site.state.listeners.push(() => this.draw());
  }

  // One of the points of each built index.
  indexes() {
    const built = new Map();
    for (const point of this.site.visible()) {
      if (!drawable(point.build)) continue;
      const told = ["dataset", "algorithm", "built", "machine", ...VERSIONS].map((id) => point[id]);
      const key = JSON.stringify([...told, point.build]);
      if (!built.has(key)) built.set(key, point);
    }
    return [...built.values()].sort((a, b) => this.name(a).localeCompare(this.name(b), "en", { numeric: true }));
  }

  name(point) {
    const ids = ["dataset", "algorithm", "form", "built", "machine", ...VERSIONS];
    const told = ids.filter((id) => id === "algorithm" || id === "built" || this.site.facets.some((f) => f.id === id));
    return nameOf(point, told);
  }

  draw() {
    const all = this.indexes();
    const listed = this.isWhole ? all : all.slice(0, FEW_BARS);
    const longest = Math.max(...all.map((point) => point.build));
    const largest = Math.max(...all.flatMap((point) => [point.indexsize ?? 0, point.estimate ?? 0]));
    const more = button(`Show all ${all.length}`, () => {
      this.isWhole = true;
      this.draw();
    });
    this.root.replaceChildren(
      ...(all.length ? [this.key(all)] : [element("p", { class: "note" }, "No point is left")]),
      element("ul", { class: "builds" }, ...listed.map((point) => this.item(point, longest, largest))),
      ...(listed.length < all.length ? [more] : []),
    );
  }

  key(all) {
    const parts = PARTS.filter(([id]) => all.some((point) => point[id] > 0));
    const entry = (name, kind) => element("span", {}, element("i", { class: `part ${kind}` }), name);
    const names = parts.length ? parts.map(([id, name]) => entry(name, id)) : [entry("build", "indexing")];
    return element("p", { class: "key" }, ...names, entry("size", "size"));
  }

  // Clustering is a part of building the index.
  parts(point) {
    if (!isNumber(point.indexing)) return [["build", "indexing", point.build]];
    const seconds = { ...point, indexing: point.indexing - (point.clustering ?? 0) };
    return PARTS.filter(([id]) => seconds[id] > 0).map(([id, name]) => [name, id, seconds[id]]);
  }

  item(point, longest, largest) {
    const parts = this.parts(point);
    const pieces = parts.map(([name, kind, value]) =>
      element("i", { class: `part ${kind}`, style: `width: ${(100 * value) / longest}%`, title: name }),
    );
    const times = parts.map(([name, , value]) => `${name} ${shown("s", value)}`).join(", ");
    const time = shown("s", point.build) + (parts.length > 1 ? ` (${times})` : "");
    const lines = [element("div", { class: "stack" }, ...pieces), element("span", {}, time)];
    if (drawable(point.indexsize)) {
      const size = element("i", { class: "part size", style: `width: ${(100 * point.indexsize) / largest}%` });
      const estimate = isNumber(point.estimate) ? ` (estimated ${shown("kib", point.estimate)})` : "";
      const told = shown("kib", point.indexsize) + estimate;
      lines.push(element("div", { class: "stack" }, size), element("span", {}, told));
    }
    return element("li", {}, element("strong", {}, this.name(point)), ...lines);
  }
}

// Workloads that write: insertions by writers, what queries notice of writing, and what happened over time.

const PHASES = ["inserting", "before", "writing", "after", "vacuumed", "reindexed"];

const WRITING = {
  inserts: {
    label: "Insertions per second (1/s)",
    of: (phase) => phase.writes.insert?.[0],
    bar: (phase) => phase.writes.insert?.slice(1, 3),
    isByWriters: true,
  },
  p99: { label: "Percentile 99 of queries (millis)", of: (phase) => phase.p99, scale: "log" },
  recall: { label: "Recall", of: (phase) => phase.recall, bar: (phase) => [phase.low, phase.high], limit: 1 },
  size: { label: "Index size", of: (phase) => phase.size || null, show: (value) => showSize(value * 1024) },
};

const OVER_TIME = {
  queries: { label: "Queries per second (1/s)" },
  query_p99: { label: "Percentile 99 of queries (millis)", scale: "log" },
  writes: { label: "Writes per second (1/s)" },
  write_p99: { label: "Percentile 99 of writes (millis)", scale: "log" },
  recall: { label: "Recall", limit: 1, show: showShare },
  index_size: { label: "Index size", show: (value) => showSize(value * 1024 ** 2) },
};

class Writing {
  constructor(site, kind, isChosen = (record) => (record.workload === "inserts") === Boolean(kind.isByWriters)) {
    Object.assign(this, { site, kind });
    this.records = decoded(data.writing);
    this.records.forEach((record, i) => {
      record.phases = data.writing.phases[i];
      record.windows = data.writing.windows[i];
    });
    this.columns = data.writing.columns;
    this.facets = facetsOf(this.columns, this.records);
    this.chosen = this.records.filter(isChosen);
    const present = new Set(this.chosen.flatMap((record) => record.phases.map((phase) => phase.name)));
    this.names = PHASES.filter((name) => present.has(name));
    this.writers = [...new Set(this.chosen.map((record) => record.writers))].sort((a, b) => a - b);
  }

  get isOfInterest() {
    return this.chosen.some((record) => record.phases.some((phase) => isNumber(this.kind.of(phase))));
  }

  // Everything that differs between records makes a curve, but for the writers along an axis.
  by() {
    const differing = (ids) => new Set(this.chosen.map((record) => ids.map((id) => record[id]).join("\n"))).size;
    const by = ["algorithm"];
    for (const { id } of this.facets) if (id !== "series" && id !== "algorithm") by.push(id);
    if (differing(["algorithm", "parameters"]) > differing(["algorithm"])) by.push("parameters");
    if (!this.kind.isByWriters) by.push(...["workload", "writers", "rate"].filter((id) => differing([id]) > 1));
    return by;
  }

  // The curves of what the filters leave, each with the marks of its records.
  curves(marks) {
    const kept = this.chosen.filter((record) => this.site.state.keeps(record));
    return new Curves(this.chosen, this.by())
      .group(kept)
      .map(({ name, style, points }) => ({
        name,
        style,
        marks: points
          .flatMap(marks)
          .filter((mark) => isNumber(mark.y))
          .sort((a, b) => a.x - b.x),
      }))
      .filter((curve) => curve.marks.length);
  }

  describe() {
    const { kind } = this;
    const curves = this.curves((record) => record.phases.map((phase) => this.mark(record, phase)));
    const x = kind.isByWriters
      ? { label: "Writers", scale: "log", places: this.writers }
      : { label: "Phase", ...categories(this.names) };
    const { label, scale = "linear", limit = null, show = showNumber } = kind;
    const y = { label, scale, limit, show };
    return { x, y, curves };
  }

  mark(record, phase) {
    const bar = this.kind.bar?.(phase);
    return {
      x: this.kind.isByWriters ? record.writers : this.names.indexOf(phase.name),
      y: this.kind.of(phase),
      yBar: bar?.every(isNumber) ? bar : null,
      isJoined: true,
      told: (isBrief) => this.told(record, phase, isBrief),
    };
  }

  told(record, phase, isBrief) {
    const list = element("dl", {}, row("Phase", phase.name), row("Rows", showNumber(phase.rows)));
    for (const [kind, [rate, low, high, p99]] of Object.entries(phase.writes))
      list.append(
        row(`${kind} per second`, `${showNumber(rate)} (${showNumber(low)} to ${showNumber(high)})`),
        row(`${kind}, percentile 99`, shown("ms", p99)),
      );
    if (isNumber(phase.qps)) list.append(row("Queries per second", showNumber(phase.qps)));
    if (isNumber(phase.p99)) list.append(row("Queries, percentile 99", shown("ms", phase.p99)));
    if (isNumber(phase.recall)) list.append(row("Recall", showShare(phase.recall)));
    if (isNumber(phase.size)) list.append(row("Index size", shown("kib", phase.size)));
    if (isNumber(phase.reach)) list.append(row("It took", shown("s", phase.reach)));
    const [title, rest] = toldOf(record, this.columns, this.facets, isBrief);
    list.append(...rest.children);
    return [title, list];
  }
}

// The same in windows of time; the clock stands still where nothing is measured.
class OverTime extends Writing {
  constructor(site, figure) {
    super(site, OVER_TIME[figure], (record) => record.windows[figure]);
    this.figure = figure;
  }

  get isOfInterest() {
    return this.chosen.length > 0;
  }

  describe() {
    const { label, scale = "linear", limit = null, show = showNumber } = this.kind;
    const curves = this.curves((record) =>
      record.windows[this.figure].map((y, i) => ({
        x: record.windows.at[i],
        y: scale === "log" && !y ? null : y,
        isJoined: true,
        isSmall: true,
        told: (isBrief) => this.toldOfWindow(record, i, isBrief),
      })),
    );
    const x = { label: "Seconds in which something was measured", scale: "linear" };
    return { x, y: { label, scale, limit, show }, curves, guides: this.guides() };
  }

  // Where phases begin that all have at the same time, but the first.
  guides() {
    const kept = this.chosen.filter((record) => this.site.state.keeps(record));
    return this.names.slice(1).flatMap((name) => {
      const starts = kept.map((record) => record.phases.find((phase) => phase.name === name)?.start).filter(isNumber);
      return new Set(starts).size === 1 ? [{ x: starts[0], label: name }] : [];
    });
  }

  toldOfWindow(record, i, isBrief) {
    const list = element("dl", {}, row("Second", showNumber(record.windows.at[i])));
    for (const [name, { label, scale, show }] of Object.entries(OVER_TIME)) {
      const value = record.windows[name]?.[i];
      const unit = scale === "log" ? "ms" : "number";
      if (isNumber(value)) list.append(row(withoutUnit(label), show ? show(value) : shown(unit, value)));
    }
    const [title, rest] = toldOf(record, this.columns, this.facets, isBrief);
    list.append(...rest.children);
    return [title, list];
  }
}
