/** WebM files: the pictures of a video encoder, put into the container that players read (RFC 8794, RFC 9559). */

const MOST_OF_CLUSTER = 30_000; // Milliseconds: a block counts them from its cluster's begin in 16 bits.

/**
 * @typedef {{bytes: Uint8Array<ArrayBuffer>, at: number, isKey: boolean}} Chunk `at` in milliseconds from the begin
 * @param {Chunk[]} chunks in the order of time @param {{width: number, height: number}} size
 * @param {string} codec as Matroska names it, such as `V_VP9` @param {number} duration in milliseconds
 * @returns {Blob}
 */
export function webmOf(chunks, { width, height }, codec, duration) {
  const head = master(0x1a45dfa3, [
    number(0x4286, 1), number(0x42f7, 1), number(0x42f2, 4), number(0x42f3, 8),
    words(0x4282, "webm"), number(0x4287, 4), number(0x4285, 2),
  ]);
  const info = master(0x1549a966, [
    number(0x2ad7b1, 1_000_000), float(0x4489, duration), words(0x4d80, "TileHarvest"), words(0x5741, "TileHarvest"),
  ]);
  const video = master(0xe0, [number(0xb0, width), number(0xba, height)]);
  const track = master(0xae, [
    number(0xd7, 1), number(0x73c5, 1), number(0x9c, 0), words(0x86, codec), number(0x83, 1), video,
  ]);
  const body = [info, master(0x1654ae6b, [track]), ...clusters(chunks)];
  return new Blob([head, master(0x18538067, body)].flat(Infinity), { type: "video/webm" });
}

/** @param {Chunk[]} chunks */
function clusters(chunks) {
  /** @type {{begin: number, blocks: Part[]}[]} */
  const found = [];
  for (const { bytes, at, isKey } of chunks) {
    let cluster = found.at(-1);
    if (cluster === undefined || isKey || at - cluster.begin > MOST_OF_CLUSTER) {
      cluster = { begin: at, blocks: [] };
      found.push(cluster);
    }
    const since = at - cluster.begin;
    const place = new Uint8Array([0x81, since >> 8, since & 0xff, isKey ? 0x80 : 0]);
    cluster.blocks.push(master(0xa3, [place, bytes]));
  }
  return found.map(({ begin, blocks }) => master(0x1f43b675, [number(0xe7, begin), ...blocks]));
}

/** @typedef {Uint8Array<ArrayBuffer> | Part[]} Part bytes, or parts that are written one after the other */

/** @param {number} id @param {Part[]} content @returns {Part[]} */
function master(id, content) {
  return [bytesOf(id), sizeOf(lengthOf(content)), ...content];
}

/** @param {Part} part @returns {number} */
function lengthOf(part) {
  if (part instanceof Uint8Array) return part.length;
  return part.reduce((sum, one) => sum + lengthOf(one), 0);
}

/** @param {number} length @returns {Uint8Array<ArrayBuffer>} the length in eight bytes, the first of which tells their number */
function sizeOf(length) {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(length));
  bytes[0] = 1;
  return bytes;
}

/** @param {number} value @returns {Uint8Array<ArrayBuffer>} in as few bytes as it has */
function bytesOf(value) {
  const bytes = [];
  for (let rest = value; rest > 0 || bytes.length === 0; rest = Math.floor(rest / 256)) bytes.unshift(rest % 256);
  return new Uint8Array(bytes);
}

/** @param {number} id @param {number} value */
function number(id, value) {
  return master(id, [bytesOf(value)]);
}

/** @param {number} id @param {number} value */
function float(id, value) {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setFloat64(0, value);
  return master(id, [bytes]);
}

/** @param {number} id @param {string} value */
function words(id, value) {
  return master(id, [new Uint8Array(new TextEncoder().encode(value))]);
}
