/**
 * Addresses: what the page shows as the part of its address after `#`, and links of Overviewer's own page.
 *
 * @typedef {import("./state.js").Look} Look
 * @typedef {import("./state.js").Mode} Mode
 * @typedef {object} OverviewerLink
 * @property {number} x
 * @property {number} y the height
 * @property {number} z
 * @property {number | "max" | "min" | null} zoom negative: levels out from the deepest; 0 or more: a level
 *   that Overviewer replaces by the map's default; null: not in the link
 * @property {string | null} world its name, or its index in older versions; null: not in the link
 * @property {string | null} tileset its path, which is our layer's name, or in older versions its title or
 *   its index among the world's
 */
import { HEIGHT } from "./projection.js";

/** The address of the page about harvests. */
export const HARVESTS = "#harvests";

const COARSEST = -30; // As deep as a map can be.
const MOST_ENLARGED = 2;
const DAY = /^\d{4}-\d{2}-\d{2}$/;
const COORDINATE = /^-?\d{1,9}(\.\d+)?$/;
const WHOLE = /^-?\d{1,9}$/;
const INDEX = /^\d{1,4}$/;
const MODES = ["one", "swipe", "side", "onion", "difference"];

/**
 * @param {Partial<Look>} look what is missing, null or usual is left out
 * @returns {string} such as `#map=antworld&layer=world-lighting&day=2021-02-16&x=-220&z=-89&zoom=-2`
 */
export function writeHash({ map, layer, day, x, z, zoom, mode, other, heat }) {
  const range = heat ? `${heat.after}..${heat.until}` : null;
  const shown = mode === "one" ? null : mode;
  const values = { map, layer, day, x, z, zoom, mode: shown, with: other, heat: range };
  const written = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) {
    if (value !== null && value !== undefined) written.set(key, String(value));
  }
  return `#${written}`;
}

/**
 * What an address says. Whatever it says that cannot be is left out, as are keys that mean nothing to us.
 * @param {string} hash or a whole address
 * @returns {Partial<Look>}
 */
export function readHash(hash) {
  const read = new URLSearchParams(hash.slice(hash.indexOf("#") + 1));
  const x = coordinate(read.get("x"));
  const z = coordinate(read.get("z"));
  // One coordinate alone is no place.
  const place = x === null || z === null ? { x: null, z: null } : { x, z };
  const found = {
    map: read.get("map") || null,
    layer: read.get("layer") || null,
    day: dayIn(read.get("day")),
    other: dayIn(read.get("with")),
    mode: modeIn(read.get("mode")),
    heat: rangeIn(read.get("heat")),
    ...place,
    zoom: zoomIn(read.get("zoom")),
  };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== null));
}

/**
 * @param {string} text an address of Overviewer's own page, or the part of it from `#` on
 * @returns {OverviewerLink | null} null if it is no such address
 */
export function parseOverviewerLink(text) {
  const start = text.indexOf("#/");
  if (start < 0) return null;
  const [x, y, z, zoom, world, tileset] = text.slice(start + 2).trim().split("/");
  if (![x, y, z].every((value) => COORDINATE.test(value ?? ""))) return null;
  const both = Boolean(world) && Boolean(tileset);
  return {
    x: whole(x),
    y: whole(y),
    z: whole(z),
    zoom: zoom === "max" || zoom === "min" ? zoom : WHOLE.test(zoom ?? "") ? whole(zoom) : null,
    // Overviewer, too, takes them only together.
    world: both ? decoded(world) : null,
    tileset: both ? decoded(tileset) : null,
  };
}

/**
 * Our zoom for a link's. Overviewer counts from the tileset's `maxZoom`, which a site can set below the
 * depth; a history does not know it, so it is taken to be the depth.
 * @param {OverviewerLink} link
 * @returns {number | null} null: the link leaves it to the map
 */
export function zoomOfLink({ zoom }) {
  if (zoom === "max") return 0;
  return typeof zoom === "number" && zoom < 0 ? Math.max(COARSEST, zoom) : null;
}

/**
 * The layer that a link means: the one of that name; or, for an index, the one at that place among the
 * layers of the link's world; or else the first of that world, or of all. An index counts the layers that
 * were harvested, so where a site has more it may miss.
 * @param {OverviewerLink} link
 * @param {{name: string, world: string | null}[]} layers in the site's order
 * @returns {string | null} its name; null if there is no layer
 */
export function chooseLayer({ world, tileset }, layers) {
  const named = layers.find((layer) => layer.name === tileset);
  const inWorld = layersOfWorld(world, layers);
  const indexed = tileset !== null && INDEX.test(tileset) ? inWorld[Number(tileset)] : undefined;
  return (named ?? indexed ?? inWorld[0] ?? layers[0])?.name ?? null;
}

/**
 * The address of a place on the map's own page. Versions of Overviewer that count worlds and tilesets,
 * instead of naming them, may open another layer.
 * @param {string} url of the page
 * @param {{x: number, z: number, zoom: number, world: string | null, tileset: string}} place `zoom` is ours;
 *   `tileset` is the layer's name
 * @returns {string}
 */
export function overviewerLink(url, { x, z, zoom, world, tileset }) {
  // A number of 0 or more would make Overviewer take the map's default zoom.
  const levels = zoom < 0 ? Math.round(zoom) : "max";
  const names = [world ?? "0", tileset].map(encodeURI);
  return [`${url.split("#", 1)[0]}#`, Math.floor(x), HEIGHT, Math.floor(z), levels, ...names].join("/");
}

/** @param {string | null} world @param {{name: string, world: string | null}[]} layers */
function layersOfWorld(world, layers) {
  const named = layers.filter((layer) => layer.world === world);
  if (world === null || named.length > 0 || !INDEX.test(world)) return named;
  const worlds = [...new Set(layers.map((layer) => layer.world))];
  return layers.filter((layer) => layer.world === worlds[Number(world)]);
}

/** @param {string | null} text @returns {number | null} to a tenth of a block */
function coordinate(text) {
  return text !== null && COORDINATE.test(text) ? Math.round(Number(text) * 10) / 10 + 0 : null;
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
  return text !== null && MODES.includes(text) ? /** @type {Mode} */ (text) : null;
}

/** @param {string | null} text @returns {number | null} */
function zoomIn(text) {
  if (text === null || !WHOLE.test(text)) return null;
  const zoom = whole(text);
  return zoom >= COARSEST && zoom <= MOST_ENLARGED ? zoom : null;
}

/** @param {string} text @returns {number} without what is behind the point, and never a negative zero */
function whole(text) {
  return Math.trunc(Number(text)) + 0;
}

/** @param {string} text @returns {string} as it is, where it is not written as in addresses */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
