"use strict";

// The results of the page: points with their columns by name, and what they can be filtered by.

const ROUNDING = 1e-9;
const NOTHING = ""; // how a filter writes that a point has no value

// A table as data.py writes it, as points; `point.bars[column]` is an interval.
function decoded({ count, columns }) {
  const points = Array.from({ length: count }, () => ({ bars: {} }));
  for (const column of columns) {
    const stored = column.words ? (column.at ?? Array(count).fill(column.same)) : column.values;
    points.forEach((point, i) => {
      if (column.words) point[column.id] = column.words[stored[i]] ?? null;
      else point[column.id] = stored ? stored[i] : column.same;
      if (isNumber(column.low?.[i])) point.bars[column.id] = [column.low[i], column.high[i]];
    });
  }
  return points;
}

const written = (value) => (value === null || value === undefined ? NOTHING : String(value));

// The values of a facet in their order, as they are written; a point without one comes last.
function facetValues(column, points) {
  const present = new Set(points.map((point) => written(point[column.id])));
  const known = column.words ?? [...present].filter((value) => value !== NOTHING).sort((a, b) => a - b);
  return [...known, NOTHING].filter((value) => present.has(value));
}

// Columns of versions, of the server and of extensions, with what people call them.
const VERSION_NAMES = new Map(
  [...(data.points?.columns ?? []), ...(data.writing?.columns ?? [])]
    .filter(({ id }) => id.endsWith("_version"))
    .map(({ id, label }) => [id, label]),
);
const VERSIONS = [...VERSION_NAMES.keys()];

// Facets of which there is a choice: several values, or one that not all points have, which
// of a version would say no more than the algorithm does.
function facetsOf(columns, points) {
  return columns
    .filter((column) => column.facet)
    .map((column) => ({ ...column, options: facetValues(column, points) }))
    .filter(({ id, options }) => options.length > (VERSIONS.includes(id) && options.includes(NOTHING) ? 2 : 1));
}

const reaches = (point, recall) => point.recall >= recall - ROUNDING;
const drawable = (value) => isNumber(value) && value !== 0;
