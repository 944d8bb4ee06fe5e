/**
 * Links of Overviewer's own page: `#/x/y/z/zoom/world/tileset` (`util.js` of its source).
 *
 * A zoom is "max", "min", or a number: negative ones are levels out from the deepest, and 0 or more is a level
 * that Overviewer replaces by the map's default. A world is a name or, in older versions, an index. A tileset
 * is its path, which is our layer's name, or in older versions its title or its index among the world's.
 *
 * @typedef {import("./links.js").Link} Link
 * @typedef {import("./links.js").LinkedLayer} LinkedLayer
 */
import { decoded, isCoordinate, whole, wholeIn } from "./links.js";

/** The height of the sea. Overviewer's page takes all places in its links to lie at this height. */
const HEIGHT = 64;
const COARSEST = -30; // As deep as a map can be.
const INDEX = /^\d{1,4}$/;

/** Its layers are squares around the middle of the grid, as large as their depth says. */
export const isSquare = true;

/** @param {string} text an address of its page, or the part of it from `#` on @returns {Link | null} */
export function parseLink(text) {
  const start = text.indexOf("#/");
  if (start < 0) return null;
  const [x, y, z, zoom, world, tileset] = text.slice(start + 2).trim().split("/");
  if (![x, y, z].every(isCoordinate)) return null;
  const both = Boolean(world) && Boolean(tileset);
  return {
    x: whole(x),
    y: whole(y),
    z: whole(z),
    zoom: zoom === "max" || zoom === "min" ? zoom : wholeIn(zoom),
    // Overviewer, too, takes them only together.
    world: both ? decoded(world) : null,
    style: both ? decoded(tileset) : null,
  };
}

/**
 * Our zoom for a link's. Overviewer counts from the tileset's `maxZoom`, which a site can set below the
 * depth; a history does not know it, so it is taken to be the depth.
 * @param {Link} link
 * @returns {number | null} null: the link leaves it to the map
 */
export function zoomOf({ zoom }) {
  if (zoom === "max") return 0;
  return typeof zoom === "number" && zoom < 0 ? Math.max(COARSEST, zoom) : null;
}

/**
 * The layer that a link means: the one of that name; or, for an index, the one at that place among the
 * layers of the link's world; or else the first of that world, or of all. An index counts the layers that
 * were harvested, so where a site has more it may miss.
 * @param {Link} link @param {LinkedLayer[]} layers in the site's order
 * @returns {string | null} its name; null if there is no layer
 */
export function layerOf({ world, style }, layers) {
  const named = layers.find((layer) => layer.name === style);
  const inWorld = layersOfWorld(world, layers);
  const indexed = style !== null && INDEX.test(style) ? inWorld[Number(style)] : undefined;
  return (named ?? indexed ?? inWorld[0] ?? layers[0])?.name ?? null;
}

/**
 * The address of a place on the map's own page. Versions of Overviewer that count worlds and tilesets,
 * instead of naming them, may open another layer.
 * @param {string} url of the page @param {import("./links.js").LivePlace} place
 * @returns {string}
 */
export function writeLink(url, { x, z, zoom, world, layer }) {
  // A number of 0 or more would make Overviewer take the map's default zoom.
  const levels = zoom < 0 ? Math.round(zoom) : "max";
  const names = [world ?? "0", layer].map(encodeURI);
  return [`${url.split("#", 1)[0]}#`, Math.floor(x), HEIGHT, Math.floor(z), levels, ...names].join("/");
}

/** @param {string | null} world @param {LinkedLayer[]} layers */
function layersOfWorld(world, layers) {
  const named = layers.filter((layer) => layer.world === world);
  if (world === null || named.length > 0 || !INDEX.test(world)) return named;
  const worlds = [...new Set(layers.map((layer) => layer.world))];
  return layers.filter((layer) => layer.world === worlds[Number(world)]);
}
