"use strict";

// Workloads that write: insertions by writers, and what queries notice of writing.

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

class Writing {
  constructor(site, kind) {
    Object.assign(this, { site, kind: WRITING[kind] });
    this.records = decoded(data.writing);
    this.records.forEach((record, i) => (record.phases = data.writing.phases[i]));
    this.columns = data.writing.columns;
    this.facets = facetsOf(this.columns, this.records);
    this.chosen = this.records.filter((record) => (record.workload === "inserts") === Boolean(this.kind.isByWriters));
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
    if (!this.kind.isByWriters) by.push(...["writers", "rate"].filter((id) => differing([id]) > 1));
    return by;
  }

  describe() {
    const { kind } = this;
    const by = this.by();
    const kept = this.chosen.filter((record) => this.site.state.keeps(record));
    const curves = new Curves(this.chosen, by).group(kept).map(({ name, style, points }) => ({
      name,
      style,
      marks: points
        .flatMap((record) => record.phases.map((phase) => this.mark(record, phase)))
        .filter((mark) => isNumber(mark.y))
        .sort((a, b) => a.x - b.x),
    }));
    const x = kind.isByWriters
      ? { label: "Writers", scale: "log", places: this.writers }
      : { label: "Phase", ...categories(this.names) };
    const { label, scale = "linear", limit = null, show = showNumber } = kind;
    const y = { label, scale, limit, show };
    return { x, y, curves: curves.filter((curve) => curve.marks.length) };
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
