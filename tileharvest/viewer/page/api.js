/**
 * The data API, version 1. Everything that the page asks the server, it asks by this module. A published page has no
 * server, and has `published/api.js` in its place.
 */

/**
 * @typedef {{zoom: number, x: number, y: number}} Tile
 * @typedef {{zoom: number, xFrom: number, xTo: number, yFrom: number, yTo: number}} Area centres of tiles
 * @typedef {{name: string, url: string | null, note: string, layers: string[], days: number,
 *   first_day: string | null, last_day: string | null, areas: number}} MapSummary
 * @typedef {{name: string, layer: string, corners: [[number, number], [number, number]],
 *   place: {x: number, z: number, zoom: number} | null, ground: [number, number, number, number]}} NamedArea `ground`, as of an
 *   event, is null where `place` is
 * @typedef {NamedArea & {days: Record<string, number>}} AreaStory
 * @typedef {{width: number, height: number}} Size in pixels
 * @typedef {{day: string, depth: number, tile_size: number, tile_height: number, image_extension: string,
 *   north_direction: number, factor: number, projection: import("./projection.js").Projection | null,
 *   world: string | null, background: string | null, spawn: [number, number, number] | null}} Description
 * @typedef {{name: string, zooms: Record<string, string>, last_day: string, descriptions: Description[]}} Layer
 * @typedef {{name: string, url: string | null, live?: boolean, note: string, renderer: string | null,
 *   days: string[], unfinished: string[], layers: Layer[], composed?: boolean}} MapOutline `live`: false if the
 *   map is not at its url any more; `composed`: false where pictures of zooms without tiles are not put together
 * @typedef {{day: string, image: string | null, size: number | null}} StoredVersion
 * @typedef {{tile: string, days: number, tiles: number}} ChangedPlace
 * @typedef {{day: string, started: string, ended: string | null, reason: string | null,
 *   depth: Record<string, number>, counts: Record<string, number>, requests: number, received_bytes: number,
 *   stored_bytes: number, spared_bytes: number, seconds_worked: number, stopped: string | null,
 *   walk: "full" | "pruned" | "repaired" | "share" | "pushed" | "imported" | "changes" | null, walk_reason: string | null}}
 * Harvest
 * @typedef {{active: boolean, tiles_done: number,
 *   tiles_expected: number | null, failures: number, requests_per_second: number | null,
 *   seconds_left: number | null, stopped: string | null}} Running
 * @typedef {{west: number, south: number, east: number, north: number}} Ground a rectangle in grid units
 * @typedef {{first: string, last: string, before: string, kind: "changed" | "new" | "gone", tiles: number,
 *   changed: number, new: number, gone: number, area: {zoom: number},
 *   ground: [number, number, number, number]}} Event `ground` from west over south and east to north
 * @typedef {{settled: string | null, first_asked: string[], count: number, events: Event[],
 *   left?: number}} Events `left`: of the months around, those of which nothing else is told
 * @typedef {{day: string, before: string, share: number, empty: boolean, damaged: boolean}} PixelChapter
 * @typedef {{versions: number, changes: number, first: string | null, since: string | null,
 *   same_before: string[]}} PixelSum
 * @typedef {{harvests: Harvest[], running: Running | null, next_due: string | null,
 *   stored_bytes: number}} Harvests
 */

const BASE = "api/v1";

/** The page asks for blocks of 2^2 = 4 by 4 tiles. Six or eight of them cover a screen, and few tiles lie beside it. */
export const BLOCK_LEVELS = 2;

/** The server refuses larger areas. */
const MOST_TILES = 1024;

/** A failed question, with the words of the server, or those of the browser if there was no answer. */
export class ApiError extends Error {
  /** @param {string} message @param {number} status 0 if nothing answered */
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** @param {Description} description @returns {Size} of its tiles */
export function tileSizeOf({ tile_size: width, tile_height: height }) {
  return { width, height };
}

/** @returns {Promise<MapSummary[]>} */
export async function maps() {
  return (await ask("maps")).maps;
}

/** @param {string} map @returns {Promise<MapOutline>} */
export function outline(map) {
  return ask(`maps/${encodeURIComponent(map)}`);
}

/** @typedef {Map<string, string | null>} Addresses by `x_y`; null: the tile was gone; absent: it was not there yet */

/** The areas of one day that are asked for in this moment, by map, layer, day and zoom.
 * @type {Map<string, {areas: Area[], whole: Promise<Area | null>, answer?: Promise<Addresses>}>} */
const asking = new Map();

/**
 * The addresses of the images of an area's tiles on a day. A screen shows several areas, which are asked for in one
 * moment. If they make up a rectangle, they are one question, and its answer has the tiles of all of them.
 * @param {string} map @param {string} layer @param {string} day @param {Area} area
 * @returns {Promise<Addresses>}
 */
export async function view(map, layer, day, area) {
  const key = JSON.stringify([map, layer, day, area.zoom]);
  let together = asking.get(key);
  if (together === undefined) {
    const areas = /** @type {Area[]} */ ([]);
    const whole = Promise.resolve().then(() => {
      asking.delete(key);
      return rectangleOf(areas);
    });
    together = { areas, whole };
    asking.set(key, together);
  }
  together.areas.push(area);
  const whole = await together.whole;
  if (whole === null) return viewOf(map, layer, day, area);
  together.answer ??= viewOf(map, layer, day, whole);
  return together.answer;
}

/** @param {Area[]} areas of one zoom @returns {Area | null} null: they leave holes, overlap, or are too large together */
function rectangleOf(areas) {
  const edge = (/** @type {"xFrom" | "xTo" | "yFrom" | "yTo"} */ name) => areas.map((area) => area[name]);
  const whole = {
    zoom: areas[0].zoom,
    xFrom: Math.min(...edge("xFrom")), xTo: Math.max(...edge("xTo")),
    yFrom: Math.min(...edge("yFrom")), yTo: Math.max(...edge("yTo")),
  };
  const tilesOf = (/** @type {Area} */ { zoom, xFrom, xTo, yFrom, yTo }) =>
    ((xTo - xFrom) * 2 ** (zoom - 1) + 1) * ((yTo - yFrom) * 2 ** (zoom - 1) + 1);
  const tiles = areas.reduce((sum, area) => sum + tilesOf(area), 0);
  return tiles === tilesOf(whole) && (tiles <= MOST_TILES || areas.length === 1) ? whole : null;
}

/** @param {string} map @param {string} layer @param {string} day @param {Area} area @returns {Promise<Addresses>} */
async function viewOf(map, layer, day, area) {
  const answer = await ask(`maps/${encodeURIComponent(map)}/view`, { layer, day, ...parameters(area) });
  /** @type {Addresses} */
  const addresses = new Map();
  for (const [place, image] of Object.entries(answer.tiles)) {
    addresses.set(place, image === null ? null : imageAddress(image));
  }
  for (const [place, since] of Object.entries(answer.composed)) {
    addresses.set(place, composedAddress(map, layer, `${area.zoom}_${place}`, since));
  }
  return addresses;
}

/**
 * @param {string} map @param {string} layer
 * @returns {Promise<Tile[] | null>} tiles around everything that is there on the last day, or null if the page must
 *   find that out itself
 */
export async function reach(map, layer) {
  return null;
}

/** Whether the owner of the maps can name areas. */
export const hasAreas = true;

/** @returns {boolean} whether pictures of other days may be loaded in advance, at no cost but their own */
export function isAtHand() {
  return true;
}

/** @param {string} image sha1 and extension @returns {string} of its picture, without the lower half of BlueMap's images */
export function imageAddress(image) {
  return `pictures/${image}`;
}

/** @param {string} map @param {string} layer @param {string} tile @param {string} day */
export function composedAddress(map, layer, tile, day) {
  const query = new URLSearchParams({ layer });
  return `${BASE}/maps/${encodeURIComponent(map)}/composed/${tile}/${day}.png?${query}`;
}

/**
 * How many tiles of the area changed on each day that has changes.
 * @param {string} map @param {string} layer @param {Area} area @param {AbortSignal} [signal]
 * @returns {Promise<Map<string, number>>}
 */
export async function changes(map, layer, area, signal) {
  const question = { layer, ...parameters(area) };
  const answer = await ask(`maps/${encodeURIComponent(map)}/changes`, question, signal);
  return new Map(Object.entries(answer.days));
}

/**
 * The number of days on which each cell of the area changed, after one day and until another.
 * @param {string} map @param {string} layer @param {Area} area @param {string} after @param {string} until
 * @returns {Promise<{zoom: number, cells: [number, number, number][]}>} the cells' zoom; x, y and days
 */
export function heat(map, layer, area, after, until) {
  return ask(`maps/${encodeURIComponent(map)}/heat`, { layer, after, until, ...parameters(area) });
}

/**
 * @param {string} map @param {string} layer @param {string} after @param {string} until
 * @returns {Promise<ChangedPlace[]>} most changed first
 */
export async function places(map, layer, after, until) {
  const question = { layer, after, until, limit: "12" };
  return (await ask(`maps/${encodeURIComponent(map)}/places`, question)).places;
}

/** @param {string} map @param {string} layer @param {string} tile @returns {Promise<StoredVersion[]>} */
export async function story(map, layer, tile) {
  return (await ask(`maps/${encodeURIComponent(map)}/tiles/${tile}`, { layer })).versions;
}

/** @param {string} map @returns {Promise<Harvests>} newest first */
export function harvests(map) {
  return ask(`maps/${encodeURIComponent(map)}/harvests`);
}

/** @param {string} map @returns {Promise<NamedArea[]>} */
export async function areas(map) {
  return (await ask(`maps/${encodeURIComponent(map)}/areas`)).areas;
}

/** @param {string} map @param {string} area @returns {Promise<AreaStory>} oldest day first */
export function area(map, area) {
  return ask(`maps/${encodeURIComponent(map)}/areas/${encodeURIComponent(area)}`);
}

/**
 * @param {string} map @param {string} layer @param {{from: string, to: string}} period both days included
 * @param {Ground | null} ground null: everywhere
 * @returns {Promise<Events>}
 */
export function events(map, layer, period, ground) {
  return ask(`maps/${encodeURIComponent(map)}/events`, { layer, ...period, limit: "50", ...corners(ground) });
}

/** @param {string} map @param {string} layer @param {Event} event @returns {string | null} of its picture before and after; null: there is none */
export function beforeAddress(map, layer, { before, last, ground: [west, south, east, north] }) {
  const query = new URLSearchParams({ layer, ...corners({ west, south, east, north }) });
  return `${BASE}/maps/${encodeURIComponent(map)}/before/${before}/${last}.jpg?${query}`;
}

/**
 * The shared address of a place, which shows other sites a picture of it, and leads to it.
 * @param {string} map @param {string} layer @param {string[]} days one, or an earlier and a later one
 * @param {{x: number, z: number, zoom: number}} place @param {string} language
 * @returns {string | null} null if there is no server
 */
export function sharedAddress(map, layer, days, { x, z, zoom }, language) {
  const query = new URLSearchParams(language === "en" ? { layer } : { layer, language });
  return `s/${encodeURIComponent(map)}/${days.join("..")}/${x},${z},${zoom}?${query}`;
}

/** @param {string} map @param {string} layer @param {string} day @param {Ground} ground @returns {string} of its picture */
export function groundAddress(map, layer, day, ground) {
  const query = new URLSearchParams({ layer, ...corners(ground) });
  return `${BASE}/maps/${encodeURIComponent(map)}/ground/${day}.jpg?${query}`;
}

/**
 * @param {string} map @param {NamedArea} area @param {string} day @param {AbortSignal} signal
 * @returns {Promise<Blob | null>} the picture of exactly the area on that day; null: nothing was there
 */
export async function areaImage(map, { layer, ground: [west, south, east, north] }, day, signal) {
  const address = groundAddress(map, layer, day, { west, south, east, north });
  const response = await fetch(address, { signal });
  return response.status === 204 ? null : bodyOf(response);
}

/** @param {Response} response @returns {Promise<Blob>} */
async function bodyOf(response) {
  if (response.ok) return response.blob();
  const answer = await response.json().catch(() => ({ error: response.statusText }));
  throw new ApiError(answer.error, response.status);
}

/**
 * @param {string} map @param {string} layer @param {string} language
 * @param {Ground | null} ground null: everywhere
 */
export function feedAddress(map, layer, language, ground) {
  const query = new URLSearchParams({ layer, language, ...corners(ground) });
  return `${BASE}/maps/${encodeURIComponent(map)}/events.atom?${query}`;
}

/**
 * Ask for the story of a rectangle's pixels. The listener gets each line as soon as it is found.
 * @param {string} map @param {string} layer @param {Ground} ground
 * @param {(line: PixelChapter | PixelSum | {error: string}) => void} listener
 * @param {AbortSignal} signal
 */
export async function pixels(map, layer, ground, listener, signal) {
  const query = new URLSearchParams({ layer, ...corners(ground) });
  const response = await fetch(`${BASE}/maps/${encodeURIComponent(map)}/pixels?${query}`, { signal });
  if (!response.ok || response.body === null) {
    const answer = await response.json().catch(() => ({ error: response.statusText }));
    throw new ApiError(answer.error, response.status);
  }
  let rest = "";
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    const lines = (rest + (value ?? "")).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) listener(JSON.parse(line));
    if (done) return;
  }
}

/** @param {Ground | null} ground @returns {Record<string, string>} */
function corners(ground) {
  if (ground === null) return {};
  const written = [ground.west, ground.south, ground.east, ground.north].map((edge) => String(Number(edge.toFixed(6))));
  return { ground: written.join(",") };
}

/** @param {Area} area @returns {Record<string, string>} */
function parameters(area) {
  return {
    zoom: String(area.zoom),
    x_from: String(area.xFrom),
    x_to: String(area.xTo),
    y_from: String(area.yFrom),
    y_to: String(area.yTo),
  };
}

/**
 * @param {string} path @param {Record<string, string>} [query] @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
async function ask(path, query, signal) {
  const address = `${BASE}/${path}${query ? `?${new URLSearchParams(query)}` : ""}`;
  let response;
  try {
    response = await fetch(address, { signal });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(String(error instanceof Error ? error.message : error), 0);
  }
  const answer = await response.json().catch(() => ({ error: response.statusText }));
  if (!response.ok) throw new ApiError(answer.error, response.status);
  return answer;
}
