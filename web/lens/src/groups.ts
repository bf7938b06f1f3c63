// Which of the files that were dropped belong together: shards of one set, the halves of a pair, a model's folder.

export interface FileGroup {
  title: string;
  // Positions of the files, the one to begin with first.
  members: number[];
}

const kShard = /^(.*?)-(?:g\d+-)?(\d{5})-of-(\d{5})(\.[^.]+)$/;
const kIndex = /\.index\.json$/;
const kWeights = /\.(safetensors|gguf|bpk|pt|pth|ckpt|npz|npy|netcl|gptrs|gptrsten|gten|bin)$/i;

// One entry for each thing that can be opened. Names may hold folders; files of different folders stay apart.
export function groupFiles(names: readonly string[]): FileGroup[] {
  const groups = new Map<string, number[]>();
  const add = (key: string, at: number): void => void groups.set(key, [...(groups.get(key) ?? []), at]);
  const hasWeights = names.some((name) => kWeights.test(name));
  names.forEach((name, at) => {
    const shard = kShard.exec(name);
    // Parts of GGUF name each other; what else is in parts is one only by its index.
    const isPart = shard !== null && (shard[4] === '.gguf' || names.includes(`${shard[1]!}${shard[4]!}.index.json`));
    if (isPart) add(`${shard[1]!}${shard[4]!}`, at);
    else if (kIndex.test(name)) add(name.replace(kIndex, ''), at);
    else if (kWeights.test(name) || !hasWeights) add(name, at);
  });
  return [...groups].map(([key, members]) => {
    // An index names its shards; without one, the first shard begins the set.
    members.sort((a, b) => Number(kIndex.test(names[b]!)) - Number(kIndex.test(names[a]!)) || (names[a]! < names[b]! ? -1 : 1));
    return { title: key, members: [...members, ...companions(names, key, members)] };
  });
}

// What belongs to it and holds no weights: the config of a model's folder, the JSON half of a pair.
function companions(names: readonly string[], key: string, members: readonly number[]): number[] {
  const wanted = [`${key.slice(0, key.lastIndexOf('/') + 1)}config.json`, key.replace(/\.[^./]+$/, '.json')];
  return names.flatMap((name, at) => (wanted.includes(name) && !members.includes(at) ? [at] : []));
}
