/** A place's story: the versions of one tile, each with its picture and what changed. */
import * as api from "./api.js";
import { changedShare } from "./compare.js";
import { dayInWords } from "./days.js";
import { element } from "./dom.js";
import { tileName } from "./grid.js";
import { bytesInWords, number, text } from "./text.js";

/** @typedef {{day: string, address: string | null, size: number | null}} Chapter */

/**
 * @param {string} map @param {import("./api.js").Layer} layer @param {api.Tile} tile @param {number} tileSize
 * @param {object} actions
 * @param {(day: string) => void} actions.show
 * @param {(before: string, day: string) => void} actions.compare
 * @returns {Promise<HTMLElement>} the panel's content, the newest version first
 */
export async function storyPanel(map, layer, tile, tileSize, actions) {
  const chapters = await told(map, layer, tile);
  const name = element("p", { class: "tile-name" }, text("storyTile", { tile: tileName(tile) }));
  if (chapters.length === 0) return element("div", {}, name, element("p", {}, text("storyNothing")));
  const items = chapters.map((chapter, index) =>
    chapterItem(tile, chapter, chapters[index - 1] ?? null, tileSize, actions));
  return element("div", {}, name, element("ol", { class: "story", reversed: true }, ...items.reverse()));
}

/**
 * The versions of a tile; at a zoom that the layer lacks, the days on which its composed picture changed.
 * @param {string} map @param {import("./api.js").Layer} layer @param {api.Tile} tile
 * @returns {Promise<Chapter[]>} oldest first
 */
async function told(map, layer, tile) {
  if (String(tile.zoom) in layer.zooms) {
    const versions = await api.story(map, layer.name, tileName(tile)).catch((error) => {
      if (error.status === 404) return [];
      throw error;
    });
    return versions.map(({ day, image, size }) => ({
      day, size, address: image === null ? null : api.imageAddress(image),
    }));
  }
  const area = { zoom: tile.zoom, xFrom: tile.x, xTo: tile.x, yFrom: tile.y, yTo: tile.y };
  const days = [...(await api.changes(map, layer.name, area)).keys()].sort();
  return days.map((day) => ({
    day, size: null, address: api.composedAddress(map, layer.name, tileName(tile), day),
  }));
}

/**
 * @param {api.Tile} tile @param {Chapter} chapter @param {Chapter | null} before @param {number} tileSize
 * @param {{show: (day: string) => void, compare: (before: string, day: string) => void}} actions
 */
function chapterItem(tile, chapter, before, tileSize, actions) {
  const { day, address, size } = chapter;
  const share = element("span", { class: "share" });
  if (before === null) share.textContent = text("storyFirst");
  else if (address === null) share.textContent = text("storyGone");
  else changedShare(before.address, address, tileSize).then((changed) => {
    share.textContent = text("storyShare", { percent: number(changed * 100, changed < 0.1 ? 1 : 0) });
  }, () => {});
  const picture = address === null
    ? element("span", { class: "thumbnail gone" }, "∅")
    : element("img", {
      class: "thumbnail", src: address, loading: "lazy", width: 96, height: 96,
      alt: text("storyPicture", { tile: tileName(tile), day: dayInWords(day) }),
    });
  return element("li", { "data-day": day },
    element("button", { type: "button", class: "plain", title: text("storyShow"), onclick: () => actions.show(day) }, picture),
    element("div", {},
      element("strong", {}, dayInWords(day, "long")),
      element("p", {}, size === null ? "" : `${bytesInWords(size)} · `, share),
      element("p", { class: "actions" },
        element("button", { type: "button", onclick: () => actions.show(day) }, text("storyShow")),
        before === null ? null : element("button", {
          type: "button", onclick: () => actions.compare(before.day, day),
        }, text("storyCompare")))));
}
