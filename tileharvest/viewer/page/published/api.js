/**
 * The answers of `api.js` from the lists of a published map, which `export/published_lists.py` writes.
 *
 * @typedef {import("../api.js").Tile} Tile
 * @typedef {import("../api.js").Area} Area
 * @typedef {{first: number, list: string | null, group: string | null}} Era its first day; the name of the list of its
 *   images, null for the last era if the leaf has them; and the list that tells this name, null once it is known
 * @typedef {{side: number, tiles: number[][], below: [number, number][][], eras: Era[], last: string}} Leaf for each of
 *   8 x 8 tiles, or of 4 x 4 if they change often, the numbers of the days on which it changed, and of those on which
 *   deeper tiles below it did, each with how many; its eras; and the images of the last era
 */
import { ApiError, tileSizeOf } from "../api.js";
import { cellOf, parseTile, tileAtCell } from "../grid.js";
import { language } from "../text.js";

export { ApiError, tileSizeOf };

/** The smallest leaves have 2^2 = 4 tiles along an edge. */
export const BLOCK_LEVELS = 2;

const QUARTER = 4; // Tiles along the edge of a quarter of a leaf, which may be a leaf by itself.
const SIDE = 8; // Tiles along a whole leaf's edge, and leaves along a block's.
const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const EXTENSIONS = { p: "png", j: "jpg", w: "webp" };
const NAMED = 11; // Signs of a name of 16 digits in base 64.
const CODED = 12; // Signs of an image: a letter for its kind, and its name.
const GROUP = 8; // Eras whose names lie in a list of their own.
const MOST_TOLD = 50; // Events.

const index = await globalThis.listNamed(document.querySelector("script[data-index]")?.dataset.index);
/** The days that the numbers in the lists count. The page shows the last ones of them. @type {string[]} */
const every = daysIn(index.every);
/** @type {string[]} */
const shown = daysIn(index.days);

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
  const { name, url, note, layers } = index.map;
  return [{
    name, url, note, layers: layers.map((/** @type {any} */ layer) => layer.name), days: shown.length,
    first_day: shown[0], last_day: shown[shown.length - 1], areas: 0,
  }];
}

/** @param {string} map */
export async function outline(map) {
  expectMap(map);
  return { ...index.map, days: shown, composed: false };
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
  await Promise.all(placesOf(area).map(async ([column, row]) => {
    const leaf = await leafAt(layer, area.zoom, column, row);
    if (leaf === null || number < leaf.eras[0].first) return;
    const images = await imagesOf(leaf, leaf.eras.findLastIndex(({ first }) => first <= number));
    for (const [tile, { x, y }] of tilesOf(area, column, row, leaf.side)) {
      const latest = images[tile]?.findLast(([since]) => since <= number);
      if (latest !== undefined) addresses.set(`${x}_${y}`, addressOf(latest[1]));
    }
  }));
  return addresses;
}

/**
 * @param {string} layer @param {string} day @param {Tile[]} tiles
 * @returns {boolean} whether all lists are loaded that tell the tiles' images on that day
 */
export function isAtHand(layer, day, tiles) {
  const number = numberOf(day);
  return tiles.every((tile) => {
    const { column, row } = cellOf(tile);
    const leaf = leaves.get(keyOf(layer, tile.zoom, Math.floor(column / QUARTER), Math.floor(row / QUARTER)));
    const { list, group } = leaf?.eras.findLast(({ first }) => first <= number) ?? { list: null, group: null };
    return group === null && (list === null || globalThis.hasList(list));
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
  /** @type {Map<string, number>[]} */
  const [own, below] = [new Map(), new Map()];
  const add = (/** @type {Map<string, number>} */ counts, /** @type {number} */ number, count = 1) => {
    const day = every[number];
    if (day >= shown[0]) counts.set(day, (counts.get(day) ?? 0) + count);
  };
  await Promise.all(placesOf(area).map(async ([column, row]) => {
    const leaf = await leafAt(layer, area.zoom, column, row);
    if (leaf === null) return;
    for (const [tile] of tilesOf(area, column, row, leaf.side)) {
      for (const number of leaf.tiles[tile]) add(own, number);
      for (const [number, count] of leaf.below[tile]) add(below, number, count);
    }
  }));
  return new Map([...new Map([...own, ...below])].sort());
}

/** @param {string} map @param {string} layer @param {string} name of the tile */
export async function story(map, layer, name) {
  const { zoom, ...place } = parseTile(name);
  const { column, row } = cellOf({ zoom, ...place });
  const leaf = await leafAt(layer, zoom, Math.floor(column / QUARTER), Math.floor(row / QUARTER));
  if (leaf === null) return [];
  const tile = modulo(row, leaf.side) * leaf.side + modulo(column, leaf.side);
  const eras = await Promise.all(leaf.eras.map((_, era) => imagesOf(leaf, era)));
  /** @type {Map<number, string>} */
  const versions = new Map(eras.flatMap((images) => images[tile] ?? []));
  return [...versions].filter(([number]) => leaf.tiles[tile].includes(number)).map(([number, code]) => ({
    day: every[number], image: code === "-" ? null : nameOf(code), size: null,
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
export const areaPicture = () => "";
export const feedAddress = () => "";
export const groundFeedAddress = () => "";
export const areas = async () => [];
export const places = async () => [];
export const film = null;
export const areaFilm = refuse;
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

/** @param {string} written the first day, and from it on a bit for each day @returns {string[]} */
function daysIn(written) {
  const [first, bits] = written.split(" ");
  const start = Date.parse(`${first}T00:00:00Z`);
  return numbersIn(`0.${bits}`).map((after) => new Date(start + after * 86_400_000).toISOString().slice(0, 10));
}

/** @param {string} written a number, and from it on a bit for each that follows @returns {number[]} */
function numbersIn(written) {
  const [first, bits] = written.split(".");
  const numbers = [];
  for (let place = 0; place < (bits ?? "").length; place += 1) {
    const digit = DIGITS.indexOf(bits[place]);
    for (let bit = 0; bit < 6; bit += 1) if ((digit >> bit) & 1) numbers.push(Number(first) + 6 * place + bit);
  }
  return numbers;
}

/**
 * @param {string} counts the bits of each count as a digit, and then all counts less 1, the lowest bits first
 * @param {number} place @returns {number} the count at this place
 */
function countIn(counts, place) {
  const width = DIGITS.indexOf(counts[0]);
  let count = 1;
  for (let bit = 0; bit < width; bit += 1) {
    const at = place * width + bit;
    const digit = DIGITS.indexOf(counts[1 + Math.floor(at / 6)] ?? DIGITS[0]);
    if ((digit >> (at % 6)) & 1) count += 2 ** bit;
  }
  return count;
}

/** @param {string} day @returns {number} of the last harvest until then */
function numberOf(day) {
  return every.findLastIndex((harvested) => harvested <= day);
}

/** @param {number} value @param {number} divisor @returns {number} never below 0 */
function modulo(value, divisor) {
  return ((value % divisor) + divisor) % divisor;
}

/** @param {Area} area @returns {[number, number][]} columns and rows of the quarters of leaves in which it has a part */
function placesOf({ zoom, xFrom, xTo, yFrom, yTo }) {
  const first = cellOf({ zoom, x: xFrom, y: yTo });
  const last = cellOf({ zoom, x: xTo, y: yFrom });
  const span = (/** @type {number} */ from, /** @type {number} */ to) => {
    const start = Math.floor(from / QUARTER);
    return Array.from({ length: Math.floor(to / QUARTER) - start + 1 }, (_, number) => start + number);
  };
  const rows = span(first.row, last.row);
  return span(first.column, last.column).flatMap((column) =>
    rows.map((row) => /** @type {[number, number]} */ ([column, row])));
}

/**
 * The tiles of an area in a quarter, each with its number in the leaf.
 * @param {Area} area @param {number} column @param {number} row of the quarter @param {number} side of the leaf
 * @returns {Generator<[number, Tile]>}
 */
function* tilesOf({ zoom, xFrom, xTo, yFrom, yTo }, column, row, side) {
  for (let down = row * QUARTER; down < (row + 1) * QUARTER; down += 1) {
    for (let across = column * QUARTER; across < (column + 1) * QUARTER; across += 1) {
      const tile = tileAtCell(across, down, zoom);
      const isIn = tile.x >= xFrom && tile.x <= xTo && tile.y >= yFrom && tile.y <= yTo;
      if (isIn) yield [modulo(down, side) * side + modulo(across, side), tile];
    }
  }
}

/** @type {Map<string, Leaf>} those that were read, by layer, zoom, and column and row of a quarter */
const leaves = new Map();

/** @param {string} layer @param {number} zoom @param {number} column @param {number} row */
function keyOf(layer, zoom, column, row) {
  return `${layer} ${zoom} ${column} ${row}`;
}

/**
 * @param {string} layer @param {number} zoom @param {number} column @param {number} row of a quarter
 * @returns {Promise<Leaf | null>} in which it lies
 */
async function leafAt(layer, zoom, column, row) {
  const key = keyOf(layer, zoom, column, row);
  const known = leaves.get(key);
  if (known !== undefined) return known;
  const [across, down] = [Math.floor(column / 2), Math.floor(row / 2)];
  const name = index.layers[layer]?.zooms[zoom]?.[`${Math.floor(across / SIDE)}_${Math.floor(down / SIDE)}`];
  if (name === undefined) return null;
  const whole = await listIn((await globalThis.listNamed(name))[modulo(down, SIDE) * SIDE + modulo(across, SIDE)]);
  const isCut = Array.isArray(whole);
  const found = isCut ? await listIn(whole[modulo(row, 2) * 2 + modulo(column, 2)]) : whole;
  if (found === 0) return null;
  const { d, t, n, e } = found;
  const [begun, names, last] = e;
  const firsts = numbersIn(begun);
  const named = namesIn(names);
  // The last era is in no group, because its list may be replaced.
  const groups = Math.floor((firsts.length - 1) / GROUP);
  const eras = firsts.map((first, era) => (era < GROUP * groups
    ? { first, list: null, group: named[Math.floor(era / GROUP)] }
    : { first, list: named[groups + era - GROUP * groups] ?? null, group: null }));
  const days = numbersIn(d);
  const daysOf = (/** @type {string} */ written) => numbersIn(written).map((number) => days[number]);
  const tiles = t.map(daysOf);
  const below = t.map((/** @type {string} */ _, /** @type {number} */ tile) => {
    const [counts, ...its] = (n?.[tile] ?? "").split(".");
    if (counts === "") return [];
    const own = its.length > 0 ? daysOf(its.join(".")) : tiles[tile];
    return own.map((/** @type {number} */ day, /** @type {number} */ place) => [day, countIn(counts, place)]);
  });
  const leaf = { side: isCut ? QUARTER : SIDE, tiles, below, eras, last };
  leaves.set(key, leaf);
  return leaf;
}

/** @param {any} found a list, or its name in base 64 @returns {any} the list */
function listIn(found) {
  return typeof found === "string" ? globalThis.listNamed(digitsOf(found)) : found;
}

/** @param {Leaf} leaf @param {number} era @returns {Promise<string | null>} the name of the list of its images */
async function listOf({ eras }, era) {
  const { group } = eras[era];
  if (group !== null) {
    const start = era - (era % GROUP);
    for (const [after, list] of namesIn(await globalThis.listNamed(group)).entries()) {
      Object.assign(eras[start + after], { list, group: null });
    }
  }
  return eras[era].list;
}

/** @param {string} names in base 64, one behind the other @returns {string[]} */
function namesIn(names) {
  return Array.from({ length: names.length / NAMED }, (_, at) => digitsOf(names.slice(NAMED * at, NAMED * (at + 1))));
}

/** @param {string} name in base 64 @returns {string} its digits */
function digitsOf(name) {
  const bytes = atob(`${name.replaceAll("-", "+").replaceAll("_", "/")}=`);
  return Array.from(bytes, (byte) => byte.charCodeAt(0).toString(16).padStart(2, "0")).join("");
}

/** @param {Leaf} leaf @param {number} era @returns {Promise<[number, string][][]>} days and images of each tile */
async function imagesOf(leaf, era) {
  const { tiles, eras, last } = leaf;
  const list = await listOf(leaf, era);
  const { first } = eras[era];
  const end = eras[era + 1]?.first ?? Infinity;
  const codes = list === null ? last : await globalThis.listNamed(list);
  const images = /** @type {[number, string][][]} */ (tiles.map(() => []));
  const before = tiles.flatMap((days, tile) => {
    const latest = days.findLast((day) => day < first);
    return latest === undefined ? [] : [[latest, tile]];
  });
  const came = tiles.flatMap((days, tile) => days.filter((day) => day >= first && day < end).map((day) => [day, tile]))
    .sort(([day, tile], [otherDay, otherTile]) => day - otherDay || tile - otherTile);
  let at = 0;
  for (const [day, tile] of [...before, ...came]) {
    const length = codes[at] === "-" ? 1 : CODED;
    images[tile].push([day, codes.slice(at, at + length)]);
    at += length;
  }
  return images;
}

/** @param {string} code @returns {string} the name and extension of an image's file */
function nameOf(code) {
  return `${digitsOf(code.slice(1))}.${EXTENSIONS[/** @type {"p" | "j" | "w"} */ (code[0])]}`;
}

/** @param {string} code @returns {string | null} where the image lies; null: the tile was gone */
function addressOf(code) {
  return code === "-" ? null : imageAddress(nameOf(code));
}
