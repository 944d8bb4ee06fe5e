/**
 * The answers of `api.js` from the lists of a published map, which `export/published_folder.py` writes.
 *
 * @typedef {import("../api.js").Tile} Tile
 * @typedef {import("../api.js").Area} Area
 * @typedef {{tiles: Record<string, [number[], string]>, below: Record<string, [number[], number[]]>}} Stories of tiles,
 *   by their numbers in the square: steps of days and images, and how many deeper tiles changed on some days
 */
import { ApiError, tileSizeOf } from "../api.js";
import { cellOf, parseTile, tileAtCell } from "../grid.js";
import { language } from "../text.js";

export { ApiError, tileSizeOf };

/** Nobody can name areas in a page without a server. */
export const hasAreas = false;

export const BLOCK_LEVELS = 3; // A block has 2^3 = 8 tiles along an edge.

const SIDE = 64; // Tiles along a square's edge. It has 8 blocks along an edge.
const EXTENSIONS = { p: "png", j: "jpg", w: "webp" };
const CODED = 17; // Signs of an image: a letter for its kind, and its name.
const MOST_TOLD = 50; // Events.

const index = await globalThis.listNamed(document.querySelector("script[data-index]")?.dataset.index);
/** The days that the numbers in the lists count. The page shows the last ones of them. @type {string[]} */
const every = index.every;
/** @type {string[]} */
const shown = index.days;

// An address that was made with a server may ask for the heat map.
const asked = new URLSearchParams(location.hash.slice(1));
if (asked.has("heat")) {
  asked.delete("heat");
  history.replaceState(null, "", `#${asked}`);
}

/** @param {string} map */
function expectMap(map) {
  if (map !== index.map.name) throw new ApiError(map, 404);
}

export async function maps() {
  const { name, url, layers } = index.map;
  return [{
    name, url, note: "", layers: layers.map((/** @type {any} */ layer) => layer.name), days: shown.length,
    first_day: shown[0], last_day: shown[shown.length - 1], areas: 0,
  }];
}

/** @param {string} map */
export async function outline(map) {
  expectMap(map);
  return { ...index.map, note: "", days: shown, composed: false };
}

/** @param {string} map @param {string} layer @returns {Promise<Tile[]>} the corners of what is there on the last day */
export async function reach(map, layer) {
  const [zoom, left, right, top, bottom] = index.layers[layer].reach;
  return zoom === undefined ? [] : [tileAtCell(left, top, zoom), tileAtCell(right, bottom, zoom)];
}

/**
 * @param {string} map @param {string} layer @param {string} day @param {Area} area
 * @returns {Promise<Map<string, string | null>>}
 */
export async function view(map, layer, day, area) {
  const number = numberOf(day);
  /** @type {Map<string, string | null>} */
  const addresses = new Map();
  for (const [{ x, y }, story] of await storiesIn(layer, area, "tiles")) {
    const latest = versionsOf(story).findLast(([since]) => since <= number);
    if (latest !== undefined) addresses.set(`${x}_${y}`, addressOf(latest[1]));
  }
  return addresses;
}

/**
 * @param {string} layer @param {string} day @param {Tile[]} tiles
 * @returns {boolean} whether all lists are loaded that tell the tiles' images
 */
export function isAtHand(layer, day, tiles) {
  return tiles.every((tile) => {
    const { column, row } = cellOf(tile);
    return known.has(`${layer} ${tile.zoom} ${column >> BLOCK_LEVELS} ${row >> BLOCK_LEVELS}`);
  });
}

/** @param {string} image the name of its file */
export function imageAddress(image) {
  return image === "" ? "images/" : `images/${image.slice(0, 2)}/${image}`;
}

/**
 * The number of the deepest tiles below an area that changed, for each day with a change. If only tiles of the area's
 * own zoom changed on a day, these are counted.
 * @param {string} map @param {string} layer @param {Area} area
 * @returns {Promise<Map<string, number>>}
 */
export async function changes(map, layer, area) {
  const found = new Map();
  for (const kind of /** @type {const} */ (["tiles", "below"])) {
    /** @type {Map<string, number>} */
    const counts = new Map();
    for (const [, [steps, values]] of await storiesIn(layer, area, kind)) {
      for (const [at, number] of numbersOf(steps).entries()) {
        const day = every[number];
        const count = kind === "below" ? Number(values[at]) : 1;
        if (day >= shown[0]) counts.set(day, (counts.get(day) ?? 0) + count);
      }
    }
    for (const [day, count] of counts) found.set(day, count);
  }
  return new Map([...found].sort());
}

/** @param {string} map @param {string} layer @param {string} name of the tile */
export async function story(map, layer, name) {
  const { zoom, x, y } = parseTile(name);
  const [found] = await storiesIn(layer, { zoom, xFrom: x, xTo: x, yFrom: y, yTo: y }, "tiles");
  return (found === undefined ? [] : versionsOf(found[1])).map(([number, code]) => ({
    day: every[number], image: nameOf(code), size: null,
  }));
}

/**
 * @param {string} map @param {string} layer @param {{from: string, to: string}} period
 * @param {import("../api.js").Ground | null} ground
 */
export async function events(map, layer, { from, to }, ground) {
  const { months, firstAsked } = index.layers[layer];
  const names = Object.keys(months).filter((month) => month >= from.slice(0, 7) && month <= to.slice(0, 7));
  const lists = await Promise.all(names.map((month) => globalThis.listNamed(months[month])));
  const found = lists.flatMap((list) => list.events).filter((event) => {
    const [west, south, east, north] = event.ground;
    return event.first <= to && event.last >= from && (ground === null
      || (west < ground.east && east > ground.west && south < ground.north && north > ground.south));
  });
  // The lists have only the largest events of a month. Place and day of the others are not known.
  const left = lists.reduce((sum, list) => sum + list.count - list.events.length, 0);
  found.sort((one, other) => other.tiles - one.tiles || (one.first < other.first ? -1 : 1));
  return {
    settled: null, first_asked: firstAsked.filter((/** @type {string} */ day) => day >= from && day <= to),
    count: found.length, events: found.slice(0, MOST_TOLD), left,
  };
}

/** A published event has no picture; the link beside it shows both days. */
export function beforeAddress() {
  return null;
}

// These functions need a server. A page without a server never calls them.
export const composedAddress = () => "";
export const groundAddress = () => "";
export const sharedAddress = () => null;
export const feedAddress = () => "";
export const areas = async () => [];
export const places = async () => [];
export const areaImage = refuse;
export const heat = refuse;
export const area = refuse;
export const harvests = refuse;
export const pixels = refuse;

/** @returns {Promise<any>} */
async function refuse() {
  const words = { zh: "这是已发布的页面，没有服务器可以回答这个问题" }[language()];
  throw new ApiError(words ?? "this page was published without a server, which alone could answer that", 404);
}

/** @param {string} day @returns {number} of the last harvest until then */
function numberOf(day) {
  return every.findLastIndex((harvested) => harvested <= day);
}

/** @param {number[]} steps the first day, and the steps to each of the others @returns {number[]} */
function numbersOf(steps) {
  let number = 0;
  return steps.map((step) => (number += step));
}

/** @param {[number[], string]} story @returns {[number, string][]} the days of the versions, and their images */
function versionsOf([steps, codes]) {
  return numbersOf(steps).map((number, at) => [number, codes.slice(CODED * at, CODED * (at + 1))]);
}

/**
 * @template {"tiles" | "below"} K
 * @param {string} layer @param {Area} area @param {K} kind
 * @returns {Promise<[Tile, Stories[K][string]][]>} the tiles of the area that have a story, each with it
 */
async function storiesIn(layer, { zoom, xFrom, xTo, yFrom, yTo }, kind) {
  const { column: left, row: top } = cellOf({ zoom, x: xFrom, y: yTo });
  const { column: right, row: bottom } = cellOf({ zoom, x: xTo, y: yFrom });
  const [columns, rows] = [range(left, right), range(top, bottom)];
  /** @type {Map<string, Stories | null>} */
  const blocks = new Map();
  const blockRows = range(top >> BLOCK_LEVELS, bottom >> BLOCK_LEVELS);
  await Promise.all(range(left >> BLOCK_LEVELS, right >> BLOCK_LEVELS).flatMap((column) => blockRows.map(async (row) => {
    blocks.set(`${column} ${row}`, await blockAt(layer, zoom, column, row));
  })));
  return columns.flatMap((column) => rows.flatMap((row) => {
    const stories = blocks.get(`${column >> BLOCK_LEVELS} ${row >> BLOCK_LEVELS}`);
    const own = stories?.[kind][(row & (SIDE - 1)) * SIDE + (column & (SIDE - 1))];
    return own === undefined ? [] : [/** @type {[Tile, Stories[K][string]]} */ ([tileAtCell(column, row, zoom), own])];
  }));
}

/** @type {Set<string>} the blocks whose stories were read, by layer, zoom, column and row */
const known = new Set();

/**
 * @param {string} layer @param {number} zoom @param {number} column @param {number} row of the block
 * @returns {Promise<Stories | null>} of the block, or of the whole square in which it lies
 */
async function blockAt(layer, zoom, column, row) {
  const name = index.layers[layer]?.zooms[zoom]?.[`${column >> 3}_${row >> 3}`];
  const square = name === undefined ? null : await globalThis.listNamed(name);
  const own = square?.blocks?.[`${column}_${row}`];
  const stories = square?.blocks === undefined ? square : own === undefined ? null : await globalThis.listNamed(own);
  known.add(`${layer} ${zoom} ${column} ${row}`);
  return stories;
}

/** @param {number} first @param {number} last @returns {number[]} */
function range(first, last) {
  return Array.from({ length: last - first + 1 }, (_, number) => first + number);
}

/** @param {string} code @returns {string | null} the name and extension of an image's file; null: the tile was gone */
function nameOf(code) {
  return code[0] === "-" ? null : `${code.slice(1)}.${EXTENSIONS[/** @type {"p" | "j" | "w"} */ (code[0])]}`;
}

/** @param {string} code @returns {string | null} where the image lies; null: the tile was gone */
function addressOf(code) {
  const name = nameOf(code);
  return name === null ? null : imageAddress(name);
}
