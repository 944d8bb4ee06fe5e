/**
 * What the page knows of renderers: the links of each one's own page, and how it tells a place. Everything else
 * is in what the server says of a layer.
 *
 * @typedef {import("./links.js").Link} Link
 * @typedef {object} Renderer
 * @property {(text: string) => Link | null} parseLink null: it is no address of its page
 * @property {(link: Link, layout: import("../api.js").Description) => number | null} zoomOf ours; null: the
 *   link does not say it
 * @property {(link: Link, layers: import("./links.js").LinkedLayer[]) => string | null} layerOf the name of the
 *   layer that a link means; null: none of these
 * @property {(url: string, place: import("./links.js").LivePlace) => string | null} writeLink null: its page
 *   cannot be told a place
 * @property {boolean} [isSquare] whether a layer is a square around the middle of the grid, as large as its
 *   depth says. Else nobody says how far it reaches
 * @property {boolean} [inDegrees] whether places are told in degrees of the earth
 */
import * as bluemap from "./bluemap.js";
import * as dynmap from "./dynmap.js";
import * as mapcrafter from "./mapcrafter.js";
import * as overviewer from "./overviewer.js";
import * as pl3xmap from "./pl3xmap.js";
import * as squaremap from "./squaremap.js";
import * as unmined from "./unmined.js";
import * as xyz from "./xyz.js";

/** @type {Record<string, Renderer>} by their names in maps.toml */
const RENDERERS = { bluemap, dynmap, mapcrafter, overviewer, pl3xmap, squaremap, unmined, xyz };

/** @type {Renderer} of another package */
const UNKNOWN = { parseLink: () => null, zoomOf: () => null, layerOf: () => null, writeLink: () => null };

/** @param {string | null} name @returns {Renderer} */
export function rendererOf(name) {
  return (name !== null && Object.hasOwn(RENDERERS, name) && RENDERERS[name]) || UNKNOWN;
}
