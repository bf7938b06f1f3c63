// Which addresses may become links. Everything else stays text: no javascript:, data:, file: or relative address.

const kSchemes = new Set(['http:', 'https:', 'mailto:']);
const kMaxLinkChars = 2048;

// The address in its normal form, or null where it must not become a link.
export function safeLink(address: string): string | null {
  if (address.length > kMaxLinkChars || !/^(https?:\/\/|mailto:)/i.test(address)) return null;
  try {
    const url = new URL(address);
    return kSchemes.has(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}
