/**
 * The renderers that the page knows: the links of each one's own page, and the way in which it writes places.
 * Everything else stands in the server's description of a layer.
 *
 * @typedef {import("./links.js").Link} Link
 * @typedef {object} Renderer
 * @property {(text: string) => Link | null} parseLink null: it is not an address of its page
 * @property {(link: Link, layout: import("../api.js").Description) => number | null} zoomOf ours; null: the
 *   link does not say it
 * @property {(link: Link, layers: import("./links.js").LinkedLayer[]) => string | null} layerOf the name of the
 *   layer that a link means; null: none of these
 * @property {(url: string, place: import("./links.js").LivePlace) => string | null} writeLink null: its page
 *   cannot be told a place
 * @property {boolean} [isSquare] whether a layer is a square around the middle of the grid, as large as its
 *   depth says. Else nobody says how far it reaches
 * @property {(layout: import("../projection.js").Layout) => boolean} [inDegrees] whether places are told in degrees of the earth
 */

/** By their names in maps.toml, which are those of their modules. */
const RENDERERS = ["bluemap", "dynmap", "mapcrafter", "overviewer", "pl3xmap", "squaremap", "unmined", "xyz"];

/** @type {Renderer} of another package */
const UNKNOWN = { parseLink: () => null, zoomOf: () => null, layerOf: () => null, writeLink: () => null };

/** @param {string | null} name @returns {Promise<Renderer>} the only one whose module is loaded */
export async function rendererOf(name) {
  return name !== null && RENDERERS.includes(name) ? import(`./${name}.js`) : UNKNOWN;
}
