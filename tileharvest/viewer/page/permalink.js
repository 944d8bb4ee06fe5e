/**
 * Addresses: the state of the page in the part of its address after `#`.
 *
 * @typedef {import("./state.js").Look} Look
 * @typedef {import("./state.js").Mode} Mode
 */

/** The address of the page about harvests. */
export const HARVESTS = "#harvests";
/** The address of the list of areas. */
export const AREAS = "#areas";

const COARSEST = -30; // As deep as a map can be.
export const MOST_ENLARGED = 2;
const DAY = /^\d{4}-\d{2}-\d{2}$/;
const COORDINATE = /^-?\d{1,9}(\.\d+)?$/;
/**
 * A zoom in addresses. It lies between two whole zooms if a map was fitted into the screen, or if tiles nest by more
 * than two.
 */
const ZOOM = /^-?\d{1,2}(\.\d{1,2})?$/;
const FINEST = 1e6; // Parts of a block, or of a degree, which is a tenth of a metre.
/** @type {import("./state.js").Span[]} */
const SPANS = ["visit", "day", "week", "month"];
/** @type {Mode[]} */
export const MODES = ["one", "lens", "swipe", "side", "onion", "difference"];

/**
 * @param {Partial<Look>} look what is missing, null or usual is left out
 * @returns {string} such as `#map=antworld&layer=world-lighting&day=2021-02-16&x=-220&z=-89&zoom=-2`
 */
export function writeHash({ map, layer, day, x, z, zoom, mode, other, heat, news }) {
  const range = heat ? `${heat.after}..${heat.until}` : null;
  const shown = mode === "one" ? null : mode;
  const values = { map, layer, day, x: rounded(x), z: rounded(z), zoom, mode: shown, with: other, heat: range, new: news };
  const written = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) {
    if (value !== null && value !== undefined) written.set(key, String(value));
  }
  return `#${written}`;
}

/**
 * Read an address. Values that cannot be, and unknown keys, are left out.
 * @param {string} hash or a whole address
 * @returns {Partial<Look>}
 */
export function readHash(hash) {
  const read = new URLSearchParams(hash.slice(hash.indexOf("#") + 1));
  const x = coordinate(read.get("x"));
  const z = coordinate(read.get("z"));
  // One coordinate alone is not a place.
  const place = x === null || z === null ? { x: null, z: null } : { x, z };
  const found = {
    map: read.get("map") || null,
    layer: read.get("layer") || null,
    day: dayIn(read.get("day")),
    other: dayIn(read.get("with")),
    mode: modeIn(read.get("mode")),
    heat: rangeIn(read.get("heat")),
    news: SPANS.find((span) => span === read.get("new")) ?? null,
    ...place,
    zoom: zoomIn(read.get("zoom")),
  };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== null));
}

/**
 * Return the values of an address that `readHash` leaves out, because they cannot be.
 * @param {string} hash or a whole address
 * @returns {Record<string, string>} by their names in the address
 */
export function unreadIn(hash) {
  const said = new URLSearchParams(hash.slice(hash.indexOf("#") + 1));
  const read = readHash(hash);
  const { day, mode, heat, x, z, zoom } = read;
  const parts = { day, with: read.other, mode, heat, new: read.news, x, z, zoom };
  return Object.fromEntries(Object.entries(parts).flatMap(([name, value]) => {
    const text = said.get(name);
    return text !== null && value === undefined ? [[name, text]] : [];
  }));
}

/** @param {string} map @param {string} area @returns {string} the address of the area's page */
export function areaAddress(map, area) {
  return `#${new URLSearchParams({ area, map })}`;
}

/** @param {string} hash @returns {{map: string, area: string} | null} null: it is not an area's address */
export function readArea(hash) {
  const read = new URLSearchParams(hash.slice(1));
  const [map, area] = [read.get("map"), read.get("area")];
  return map !== null && area !== null ? { map, area } : null;
}

/** @param {string | null} text @returns {number | null} */
function coordinate(text) {
  return text !== null && COORDINATE.test(text) ? rounded(Number(text)) : null;
}

/**
 * @template {number | null | undefined} Coordinate
 * @param {Coordinate} value @returns {Coordinate | number} never a negative zero, nor one with an exponent
 */
function rounded(value) {
  return typeof value === "number" ? Math.round(value * FINEST) / FINEST + 0 : value;
}

/** @param {string | null} text @returns {string | null} */
function dayIn(text) {
  if (text === null || !DAY.test(text)) return null;
  const date = new Date(`${text}T00:00:00Z`);
  // The 30th of February becomes a day in March.
  return !Number.isNaN(date.valueOf()) && date.toISOString().startsWith(text) ? text : null;
}

/** @param {string | null} text @returns {import("./state.js").Range | null} */
function rangeIn(text) {
  const [after, until, ...more] = (text ?? "").split("..").map(dayIn);
  return after && until && more.length === 0 && after <= until ? { after, until } : null;
}

/** @param {string | null} text @returns {Mode | null} */
function modeIn(text) {
  return MODES.find((mode) => mode === text) ?? null;
}

/** @param {string | null} text @returns {number | null} */
function zoomIn(text) {
  if (text === null || !ZOOM.test(text)) return null;
  const zoom = Number(text) + 0;
  return zoom >= COARSEST && zoom <= MOST_ENLARGED ? zoom : null;
}
