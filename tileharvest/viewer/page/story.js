/** A place's story: the versions of one tile, each with its picture and what changed. */
import * as api from "./api.js";
import { chapter } from "./chapter.js";
import { changedShare } from "./difference.js";
import { dayInWords } from "./days.js";
import { element } from "./dom.js";
import { tileName } from "./grid.js";
import { bytesInWords, changedInWords, text } from "./text.js";

/**
 * @typedef {import("./outline.js").Outline} Outline
 * @typedef {object} Chapter
 * @property {string} day
 * @property {string | null} address of the picture; null: there is none
 * @property {number | null} size of the tile's file in bytes; null: the picture is not one file
 * @property {boolean} [isBelow] whether only deeper tiles of the ground are known, and none of its own zoom
 */

/**
 * @param {Outline} outline @param {import("./api.js").Layer} layer @param {api.Tile} tile @param {api.Size} tileSize
 * @param {import("./chapter.js").Actions} actions
 * @returns {Promise<HTMLElement>} the panel's content, the newest version first
 */
export async function storyPanel(outline, layer, tile, tileSize, actions) {
  const chapters = await told(outline, layer, tile);
  const name = element("p", { class: "tile-name" }, text("storyTile", { tile: tileName(tile) }));
  if (chapters.length === 0) return element("div", {}, name, element("p", {}, text("storyNothing")));
  const items = chapters.map((one, index) => chapterItem(tile, one, chapters[index - 1] ?? null, tileSize, actions));
  return element("div", {}, name, element("ol", { class: "story", reversed: true }, ...items.reverse()));
}

/**
 * Return the versions of a tile, and before them the earlier days on which something changed on its ground. A tile
 * can be younger than its ground if the map has grown by a level. A zoom without tiles has only such days.
 * @param {Outline} outline @param {import("./api.js").Layer} layer @param {api.Tile} tile
 * @returns {Promise<Chapter[]>} oldest first
 */
async function told(outline, layer, tile) {
  /** The first day with tiles of the zoom. Before it they are composed of deeper ones. */
  const since = layer.zooms[tile.zoom];
  const versions = since === undefined ? [] : await ownVersions(outline.name, layer.name, tile);
  const first = versions[0]?.day;
  if (first === outline.firstDay) return versions;
  const area = { zoom: tile.zoom, xFrom: tile.x, xTo: tile.x, yFrom: tile.y, yTo: tile.y };
  const changes = await api.changes(outline.name, layer.name, area);
  const isComposed = (/** @type {string} */ day) =>
    (since === undefined || day < since) && outline.description(layer.name, day).factor === 2;
  const earlier = [...changes.keys()].filter((day) => first === undefined || day < first).sort();
  return [...earlier.map((day) => ({
    day, size: null, isBelow: !isComposed(day),
    address: isComposed(day) ? api.composedAddress(outline.name, layer.name, tileName(tile), day) : null,
  })), ...versions];
}

/** @param {string} map @param {string} layer @param {api.Tile} tile @returns {Promise<Chapter[]>} */
async function ownVersions(map, layer, tile) {
  const versions = await api.story(map, layer, tileName(tile)).catch((error) => {
    if (error.status === 404) return [];
    throw error;
  });
  return versions.map(({ day, image, size }) => ({
    day, size, address: image === null ? null : api.imageAddress(image),
  }));
}

/**
 * @param {api.Tile} tile @param {Chapter} shown @param {Chapter | null} before @param {api.Size} tileSize
 * @param {import("./chapter.js").Actions} actions
 */
function chapterItem(tile, { day, address, size, isBelow }, before, tileSize, actions) {
  const share = element("span", { class: "share" });
  if (isBelow) share.textContent = text("storyBelow");
  else if (before === null) share.textContent = text("storyFirst");
  else if (address === null) share.textContent = text("storyGone");
  else if (before.isBelow) share.textContent = text("storyOwn");
  else changedShare(before.address, address, tileSize).then((changed) => {
    share.textContent = changedInWords(changed);
  }, () => {});
  const picture = address === null
    ? element("span", { class: "thumbnail gone" }, "∅")
    : element("img", {
      class: "thumbnail", src: address, loading: "lazy", width: 96,
      height: Math.round((96 * tileSize.height) / tileSize.width),
      alt: text("storyPicture", { tile: tileName(tile), day: dayInWords(day) }),
    });
  return chapter(day, before?.day ?? null, picture, [size === null ? "" : `${bytesInWords(size)} · `, share], actions);
}
