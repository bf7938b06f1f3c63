// What the program says, and files for tests.

import { execFileSync, spawnSync } from 'node:child_process';
import { closeSync, ftruncateSync, openSync, writeFileSync, writeSync } from 'node:fs';

export class Native {
  constructor(program) {
    this.program = program;
  }

  // The output of a command as JSON, whatever its exit code says of the file.
  json(...args) {
    const { stdout, stderr } = spawnSync(this.program, [...args, '--json'], { encoding: 'utf8', maxBuffer: 256 << 20 });
    if (stdout === '') throw new Error(`ballast ${args.join(' ')}: ${stderr}`);
    return JSON.parse(stdout);
  }

  run(...args) {
    return execFileSync(this.program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  }

  // name -> digest of the tensor's bytes.
  digests(path) {
    return Object.fromEntries(this.json('hash', path).tensors.map(({ name, blake3 }) => [name, blake3]));
  }
}

function header(tensors, metadata) {
  let offset = 0;
  const entries = tensors.map(({ name, shape, bytes }) => {
    const begin = offset;
    offset += bytes ?? 4 * shape.reduce((product, size) => product * size, 1);
    return [name, { dtype: 'F32', shape, data_offsets: [begin, offset] }];
  });
  const text = JSON.stringify({ ...(metadata === undefined ? {} : { __metadata__: metadata }), ...Object.fromEntries(entries) });
  const padded = Buffer.from(text.padEnd(Math.ceil(text.length / 8) * 8));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(padded.length));
  return { head: Buffer.concat([length, padded]), bytes: offset };
}

// A safetensors file of f32 tensors with these values.
export function writeSafetensors(path, tensors, metadata) {
  const { head } = header(tensors, metadata);
  writeFileSync(path, Buffer.concat([head, ...tensors.map(({ values }) => Buffer.from(Float32Array.from(values).buffer))]));
}

// The same without values: the file is as long as it says and takes no room on disk.
export function writeSparse(path, tensors) {
  const { head, bytes } = header(tensors);
  const file = openSync(path, 'w');
  writeSync(file, head);
  ftruncateSync(file, head.length + bytes);
  closeSync(file);
}
