"use strict";

// How fast points are at a recall, as statistics/speeds.py has it: on the line between the two neighbours of
// an index, or near one of them. The logarithm of the throughput falls in a line with the effort, minus the
// logarithm of the share of neighbours that are missed.

const SLOPE = -0.7;
const STEEPEST = -2;
const SHALLOWEST = -0.3;
const SLOPE_DOUBT = 0.5; // as a share, where a line is continued
const WIDE_APART = 0.3; // of effort, from which on two points show a slope
const FAR = Math.LN2; // of effort, beyond which no line is continued
const NORMAL = 1.959964;
const LEAST_MISSED = 1e-4; // where no interval says how few could have been seen
const HALF_A_HIT = 8; // the lower bound of a recall of 1 misses four hits

const boundsOf = (point) => point.bars.recall;
const leastMissed = (point) => Math.max(boundsOf(point) ? (1 - boundsOf(point)[0]) / HALF_A_HIT : LEAST_MISSED, 1e-6);
const missed = (point) => Math.max(1 - point.recall, leastMissed(point));
const effort = (point) => -Math.log(missed(point));
const mayReach = (point, recall) => reaches(point, recall) || (boundsOf(point) && boundsOf(point)[1] >= recall);
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

// The fastest index among points, at a recall; null where none reaches it. `point` is the one next to the recall,
// `isBound` says that all have a much higher one.
function atRecall(points, recall, facets) {
  const indexes = new Map();
  for (const point of points) {
    const own = point.built ?? [point.build, point.indexsize];
    const key = JSON.stringify([own, ...facets.map(({ id }) => written(point[id]))]);
    if (!indexes.has(key)) indexes.set(key, []);
    indexes.get(key).push(point);
  }
  const found = [...indexes.values()].map((index) => standing(frontierOf(index, "recall", "qps", [1, 1]), recall));
  return found.filter(Boolean).reduce((best, one) => (best && best.qps >= one.qps ? best : one), null);
}

// `frontier` runs from the fastest point, which has the least recall, to that with the most.
function standing(frontier, recall) {
  const aim = -Math.log(Math.max(1 - recall, Math.min(...frontier.map(leastMissed))));
  const below = frontier.filter((point) => !reaches(point, recall)).at(-1);
  const above = frontier.find((point) => reaches(point, recall));
  const known = slopeOf(frontier, aim);
  const slope = known ?? SLOPE;
  const exact = frontier.filter((point) => point.exact && mayReach(point, recall));
  if (exact.length) return standAt([[exact.reduce((best, one) => (one.qps > best.qps ? one : best)), 1]], 0, 0, 0);
  if (below && above) {
    const gap = effort(above) - effort(below);
    const share = gap > 0 ? clamp((aim - effort(below)) / gap, 0, 1) : 1;
    return standAt([[above, share], [below, 1 - share]].filter(([, weight]) => weight > 0), slope, 0, 0);
  }
  const nearest = above ?? below;
  if (!mayReach(nearest, recall)) return null;
  const rest = aim - effort(nearest);
  if (-rest > FAR) return standAt([[nearest, 1]], 0, 0, 0, true);
  const doubt = Math.abs(slope * rest) * (known === null ? SLOPE_DOUBT : SLOPE_DOUBT / 2);
  return standAt([[nearest, 1]], slope, slope * rest, doubt);
}

// With an interval of the throughput, where that of all points is known. With a slope of 0, recall adds nothing.
function standAt(weighted, slope, shift, doubt, isBound = false) {
  const qps = Math.exp(shift + weighted.reduce((sum, [point, weight]) => sum + weight * Math.log(point.qps), 0));
  const errorOf = (point) => (boundsOf(point) ? (boundsOf(point)[1] - boundsOf(point)[0]) / 2 / missed(point) : 0);
  const recallError = slope * weighted.reduce((sum, [point, weight]) => sum + weight * errorOf(point), 0);
  const reach = (end) =>
    Math.hypot(recallError, NORMAL * doubt, ...weighted.map(([p, w]) => w * Math.log(p.bars.qps[end] / p.qps)));
  const isKnown = weighted.every(([point]) => point.bars.qps);
  const bar = isKnown ? [qps * Math.exp(-reach(0)), qps * Math.exp(reach(1))] : null;
  const [[point]] = [...weighted].sort((a, b) => b[1] - a[1]);
  return { point, qps, bar, isBound };
}

// The slope between the two points nearest to the recall that are far enough apart; null where there are none.
function slopeOf(frontier, aim) {
  let best = null;
  frontier.forEach((low, i) => {
    for (const high of frontier.slice(i + 1)) {
      const [from, to] = [effort(low), effort(high)];
      if (to - from < WIDE_APART) continue;
      const far = Math.max(Math.abs(aim - from), Math.abs(aim - to));
      const slope = Math.log(high.qps / low.qps) / (to - from);
      if (!best || far < best.far || (far === best.far && slope < best.slope)) best = { far, slope };
    }
  });
  return best && clamp(best.slope, STEEPEST, SHALLOWEST);
}
