/**
 * The common parts of links of maps' own pages.
 *
 * @typedef {object} Link a place on a map's own page
 * @property {number} x @property {number} z whole numbers are the middles of blocks
 * @property {number | null} y the height; null: the layer's usual one
 * @property {number | string | null} zoom as the link writes it; null: not in the link
 * @property {string | null} world null: not in the link
 * @property {string | null} style what of the world is shown; null: not in the link
 *
 * @typedef {object} LinkedLayer
 * @property {string} name @property {string | null} world
 *
 * @typedef {object} LivePlace a place that is to be shown by the map's own page
 * @property {number} x @property {number} z of a block
 * @property {number} zoom ours: 0 is the deepest
 * @property {number} depth
 * @property {string} layer its name
 * @property {string | null} world
 */

const COORDINATE = /^-?\d{1,9}(\.\d+)?$/;
const WHOLE = /^-?\d{1,9}$/;

/** @param {string | null | undefined} text @returns {boolean} whether it is a coordinate */
export function isCoordinate(text) {
  return COORDINATE.test(text ?? "");
}

/** @param {string | null | undefined} text @returns {number | null} null: no whole number */
export function wholeIn(text) {
  return WHOLE.test(text ?? "") ? whole(/** @type {string} */ (text)) : null;
}

/** @param {string} text @returns {number} the number without its decimals, and never a negative zero */
export function whole(text) {
  return Math.trunc(Number(text)) + 0;
}

/** @param {string} text @returns {string} the text itself if it cannot be decoded */
export function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** @param {string} text @returns {string | null} what follows `#`; null: there is none */
export function hashOf(text) {
  const start = text.indexOf("#");
  return start < 0 ? null : text.slice(start + 1).trim();
}

/** @param {string} text @returns {URLSearchParams} what stands between `?` and `#`; empty if nothing does */
export function queryOf(text) {
  const start = text.indexOf("?");
  return new URLSearchParams(start < 0 ? "" : text.slice(start + 1).split("#", 1)[0].trim());
}

/**
 * The place of a query with x and z, as several renderers write it.
 * @param {string} text
 * @param {string} world @param {string} style the names of these two parameters
 * @returns {Link | null}
 */
export function linkInQuery(text, world, style) {
  const query = queryOf(text);
  const [x, y, z] = ["x", "y", "z"].map((name) => query.get(name));
  if (!isCoordinate(x) || !isCoordinate(z)) return null;
  return {
    x: whole(/** @type {string} */ (x)),
    y: wholeIn(y),
    z: whole(/** @type {string} */ (z)),
    zoom: wholeIn(query.get("zoom")),
    world: query.get(world) || null,
    style: query.get(style) || null,
  };
}

/**
 * The layer of that name, or else the first one of the link's world.
 * @param {string | null} name @param {string | null} world @param {LinkedLayer[]} layers
 * @returns {string | null} null: none of them
 */
export function layerNamed(name, world, layers) {
  const found = layers.find((layer) => layer.name === name)
    ?? layers.find((layer) => world !== null && layer.world === world);
  return found?.name ?? null;
}

/** @param {string} url of a map's page @returns {string} without query and hash */
export function pageOf(url) {
  return url.split(/[?#]/, 1)[0];
}
