// What names say about layers: "model.layers.3.mlp.up_proj.weight" belongs to the group "model.layers.3", of layer 3.

export interface Place {
  group: string;
  rest: string;
  layer: number | null;
}

export function placeOf(name: string): Place {
  const numbered = /^(.*?(?:^|[./_])(\d+))(?:[./]|$)(.*)$/.exec(name);
  if (numbered !== null) return { group: numbered[1]!, rest: numbered[3] === '' ? numbered[1]! : numbered[3]!, layer: Number(numbered[2]) };
  const dot = /^([^./]+)[./](.+)$/.exec(name);
  return dot === null ? { group: name, rest: name, layer: null } : { group: dot[1]!, rest: dot[2]!, layer: null };
}

// Groups in the order of their first member.
export function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}
