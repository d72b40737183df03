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
