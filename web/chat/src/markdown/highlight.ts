// Syntax highlighting: one scanner, and a table of what each language calls a comment, a string and a keyword.
// It never fails: what it does not know stays plain.

export type TokenKind = 'plain' | 'comment' | 'string' | 'number' | 'keyword' | 'name' | 'added' | 'removed';

export interface Token {
  kind: TokenKind;
  text: string;
}

interface Language {
  line: string[]; // what begins a comment that ends with its line
  block: [string, string][]; // comments between two marks
  quotes: string[]; // longest first
  manyLineQuotes: string[];
  keywords: Set<string>;
  ignoresCase?: boolean;
}

function words(text: string): Set<string> {
  return new Set(text.split(' '));
}

const kSlashes = { line: ['//'], block: [['/*', '*/']] as [string, string][] };
const kHash = { line: ['#'], block: [] as [string, string][] };
const kPlainQuotes = { quotes: ['"', "'"], manyLineQuotes: [] as string[] };

const kC = words('alignas alignof auto bool break case catch char class concept const consteval constexpr constinit continue '
  + 'co_await co_return co_yield decltype default delete do double else enum explicit export extern false float for friend goto if '
  + 'import inline int long module mutable namespace new noexcept nullptr operator private protected public register requires '
  + 'return short signed sizeof static static_assert static_cast struct switch template this throw true try typedef typename '
  + 'union unsigned using virtual void volatile while NULL #include #define #ifdef #ifndef #endif #pragma #if #else');
const kJs = words('abstract any as async await boolean break case catch class const continue debugger declare default delete do '
  + 'else enum export extends false finally for from function get if implements import in instanceof interface let new null '
  + 'number of private protected public readonly return set static string super switch this throw true try type typeof undefined '
  + 'unknown var void while with yield');
const kPython = words('and as assert async await break case class continue def del elif else except False finally for from global '
  + 'if import in is lambda match None nonlocal not or pass raise return self True try while with yield');
const kRust = words('as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod '
  + 'move mut pub ref return self Self static struct super trait true type unsafe use where while');
const kGo = words('break case chan const continue default defer else fallthrough false for func go goto if import interface map '
  + 'nil package range return select struct switch true type var');
const kJava = words('abstract assert boolean break byte case catch char class const continue default do double else enum extends '
  + 'false final finally float for fun if implements import instanceof int interface internal is lateinit long namespace native new '
  + 'null object override package private protected public record return sealed short static string super switch synchronized this '
  + 'throw throws true try using val var virtual void volatile when while');
const kShell = words('alias break case cd continue do done echo elif else esac eval exec exit export fi for function if in local '
  + 'read readonly return set shift source sudo then trap unset until while');
const kSql = words('add all alter and as asc begin between by case commit create cross default delete desc distinct drop else end '
  + 'exists foreign from full group having if in index inner insert into is join key left like limit not null offset on or order '
  + 'outer primary references returning right rollback select set table then union unique update using values view when where with');
const kRuby = words('alias and begin break case class def defined do else elsif end ensure false for if in module next nil not or '
  + 'redo require rescue retry return self super then true undef unless until when while yield');
const kLua = words('and break do else elseif end false for function goto if in local nil not or repeat return then true until while');
const kConstants = words('true false null yes no on off');

const kLanguages: Record<string, Language> = {
  c: { ...kSlashes, ...kPlainQuotes, keywords: kC },
  js: { ...kSlashes, quotes: ['"', "'", '`'], manyLineQuotes: ['`'], keywords: kJs },
  python: { ...kHash, quotes: ['"""', "'''", '"', "'"], manyLineQuotes: ['"""', "'''"], keywords: kPython },
  rust: { ...kSlashes, quotes: ['"'], manyLineQuotes: ['"'], keywords: kRust },
  go: { ...kSlashes, quotes: ['"', "'", '`'], manyLineQuotes: ['`'], keywords: kGo },
  java: { ...kSlashes, quotes: ['"""', '"', "'"], manyLineQuotes: ['"""'], keywords: kJava },
  shell: { ...kHash, quotes: ['"', "'"], manyLineQuotes: ['"', "'"], keywords: kShell },
  sql: { line: ['--'], block: [['/*', '*/']], ...kPlainQuotes, keywords: kSql, ignoresCase: true },
  ruby: { ...kHash, ...kPlainQuotes, keywords: kRuby },
  lua: { line: ['--'], block: [['--[[', ']]']], ...kPlainQuotes, keywords: kLua },
  json: { ...kSlashes, quotes: ['"'], manyLineQuotes: [], keywords: kConstants },
  yaml: { ...kHash, quotes: ['"', "'"], manyLineQuotes: [], keywords: kConstants },
  css: { line: [], block: [['/*', '*/']], ...kPlainQuotes, keywords: words('@media @import @supports @keyframes @font-face important') },
  html: { line: [], block: [['<!--', '-->']], ...kPlainQuotes, keywords: new Set() },
};

const kAliases: Record<string, string> = {
  cpp: 'c', 'c++': 'c', cc: 'c', h: 'c', hpp: 'c', cuda: 'c', opencl: 'c', objc: 'c', glsl: 'c',
  javascript: 'js', typescript: 'js', ts: 'js', jsx: 'js', tsx: 'js', mjs: 'js',
  py: 'python', python3: 'python', rs: 'rust', golang: 'go', kotlin: 'java', kt: 'java', cs: 'java', csharp: 'java', scala: 'java',
  sh: 'shell', bash: 'shell', zsh: 'shell', console: 'shell', dockerfile: 'shell', makefile: 'shell', cmake: 'shell',
  rb: 'ruby', jsonc: 'json', json5: 'json', yml: 'yaml', toml: 'yaml', ini: 'yaml', conf: 'yaml',
  scss: 'css', xml: 'html', svg: 'html', vue: 'html', postgresql: 'sql', sqlite: 'sql', mysql: 'sql',
};

const kMaxChars = 200_000; // longer code is shown plain
const kWord = /[@#]?[A-Za-z_$][\w$]*/y;
const kNumber = /0[xX][0-9a-fA-F_]+|0[bB][01_]+|\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?/y;
const kPlainRun = /[^A-Za-z0-9_$"'`@#/\-<]+/y;

class Scanner {
  private readonly code: string;
  private readonly language: Language;
  private readonly tokens: Token[] = [];
  private at = 0;

  constructor(code: string, language: Language) {
    this.code = code;
    this.language = language;
  }

  scan(): Token[] {
    while (this.at < this.code.length) {
      const taken = this.takeComment() || this.takeString() || this.takePattern(kNumber, 'number') || this.takeWord()
        || this.takePattern(kPlainRun, 'plain');
      if (!taken) this.take('plain', this.at + 1);
    }
    return this.tokens;
  }

  private take(kind: TokenKind, end: number): true {
    const text = this.code.slice(this.at, end);
    const last = this.tokens[this.tokens.length - 1];
    if (last?.kind === kind) last.text += text;
    else this.tokens.push({ kind, text });
    this.at = end;
    return true;
  }

  private takePattern(pattern: RegExp, kind: TokenKind): boolean {
    pattern.lastIndex = this.at;
    const match = pattern.exec(this.code);
    return match !== null && this.take(kind, this.at + match[0].length);
  }

  private lineEnd(): number {
    const end = this.code.indexOf('\n', this.at);
    return end < 0 ? this.code.length : end;
  }

  private takeComment(): boolean {
    for (const [open, close] of this.language.block) {
      if (!this.code.startsWith(open, this.at)) continue;
      const end = this.code.indexOf(close, this.at + open.length);
      return this.take('comment', end < 0 ? this.code.length : end + close.length);
    }
    // "#" begins a comment only where a word could begin: not in ${#array} or a colour
    const before = this.at === 0 ? '' : this.code[this.at - 1]!;
    const begins = this.language.line.some((mark) => this.code.startsWith(mark, this.at) && (mark !== '#' || /^\s?$/.test(before)));
    return begins && this.take('comment', this.lineEnd());
  }

  private takeString(): boolean {
    const quote = this.language.quotes.find((mark) => this.code.startsWith(mark, this.at));
    if (quote === undefined) return false;
    const mayCross = this.language.manyLineQuotes.includes(quote);
    let end = this.at + quote.length;
    while (end < this.code.length) {
      if (this.code.startsWith(quote, end)) return this.take('string', end + quote.length);
      if (this.code[end] === '\n' && !mayCross) return this.take('plain', end); // an apostrophe, more likely than a string
      end += this.code[end] === '\\' ? 2 : 1;
    }
    return this.take('string', Math.min(end, this.code.length)); // the rest is still to come
  }

  private takeWord(): boolean {
    kWord.lastIndex = this.at;
    const match = kWord.exec(this.code);
    if (match === null) return false;
    const word = this.language.ignoresCase === true ? match[0].toLowerCase() : match[0];
    const end = this.at + match[0].length;
    const isTag = this.language === kLanguages['html'] && /[</]/.test(this.code[this.at - 1] ?? '');
    if (this.language.keywords.has(word) || isTag) return this.take('keyword', end);
    return this.take(this.code[end] === '(' ? 'name' : 'plain', end);
  }
}

function scanDiff(code: string): Token[] {
  return code.split('\n').map((line, index) => {
    const text = index === 0 ? line : `\n${line}`;
    const kind = /^\+(?!\+\+)/.test(line) ? 'added' : /^-(?!--)/.test(line) ? 'removed' : line.startsWith('@@') ? 'keyword' : 'plain';
    return { kind, text };
  });
}

export function highlight(code: string, languageName: string): Token[] {
  const name = languageName.toLowerCase();
  if (code.length > kMaxChars) return [{ kind: 'plain', text: code }];
  if (name === 'diff' || name === 'patch') return scanDiff(code);
  const alias = Object.hasOwn(kAliases, name) ? kAliases[name]! : name;
  if (!Object.hasOwn(kLanguages, alias)) return [{ kind: 'plain', text: code }];
  return new Scanner(code, kLanguages[alias]!).scan();
}
