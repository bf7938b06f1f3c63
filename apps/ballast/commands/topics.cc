#include "apps/ballast/commands/topics.h"

#include <algorithm>

namespace ballast::cli {

namespace {

// Shown by --help too.
#define BALLAST_EXIT_CODES                                              \
  "  0    success; files are equal or sound\n"                          \
  "  1    files differ, or a file of a known format is damaged\n"       \
  "  2    failure: missing or unreadable file, unknown format, usage\n" \
  "  130  interrupted\n"

constexpr Topic kTopics[] = {
    {"files", "Paths, and how formats are recognised",
     R"(Formats are recognised by content, never by file name. A path can be
  a file of any supported format
  a folder or *.index.json of safetensors shards, or the folder of a model
  the common prefix of a pair: run for run.json and run.npz
  - or a pipe, such as <(zcat model.gz): see ballast help pipes

  $ ballast formats
  $ ballast inspect model.bpk

When writing, the extension of the destination determines the format, or --to does:

  $ ballast convert model.npz model.bin --to safetensors
  $ ballast convert model.safetensors archive.npz --compress

Old versions of a format can be read and are written back unchanged. --target writes for a particular reader:

  $ ballast convert model.safetensors old.bpk --target burn-0.20
)"},

    {"patterns", "Regular expressions that select tensors (--only, --exclude, ...)",
     R"(A pattern is a regular expression (PCRE2, UTF-8) that may match anywhere in a tensor's name; ^ and $ anchor it. Quote
it to protect it from the shell. A dot matches any character, \. a dot:

  $ ballast inspect model.safetensors --only '^blocks\.0\.'
  $ ballast inspect model.safetensors --only 'weight$' --flat

Pattern options may be repeated. --only keeps tensors that any of its patterns match, --exclude then drops some:

  $ ballast convert model.safetensors part.safetensors --only '^blocks\.' --exclude '\.10\.'

Matching is limited in steps and memory, so no pattern can hang the program; exceeding a limit is an error.
)"},

    {"conversion", "What a conversion keeps, and what happens if it cannot",
     R"(convert keeps everything: values bit for bit, names, order, types, shapes, metadata, the model config and ids. What
the target format cannot express travels in its metadata (see: ballast help origin). If that is impossible, for
example for a dtype that the target lacks, the command lists what would be lost and stops with exit code 2. --dry-run
lists it without writing anything; --allow-lossy continues anyway.

  $ ballast convert model.npz model.safetensors --dry-run
  $ ballast convert model.bpk out.safetensors
  $ ballast diff model.bpk out.safetensors

An existing destination is only replaced with --overwrite. The result appears completely or not at all: it is
written to a temporary file, synced to disk and then renamed. --no-sync does not wait for the disk.

A format that needs a model config takes it from the source or from --config:

  $ ballast convert model.safetensors model.gptrs --config config.json

A model stays a model: the result runs, or nothing is written and the error says what would work. --container-only
changes the container alone, and keeps names and layouts:

  $ ballast convert checkpoint.gptrs model_of_gptrs.safetensors
  $ ballast convert checkpoint.gptrs tensors.npz --container-only
)"},

    {"changes", "Change names, types and layouts while converting",
     R"(convert can change tensors on the way. Flags apply in the order in which you give them, after --only and --exclude
have selected the tensors.

--rename replaces every match of a pattern in every name; $1 is the first group. --renumber closes gaps:

  $ ballast convert model.safetensors renamed.safetensors --rename '^blocks\.(\d+)=layers.$1' --renumber

--dtype casts floating-point tensors and reports the largest error; --keep excludes some:

  $ ballast convert model.safetensors half.safetensors --dtype bf16 --keep norm

apply loads weights into a model with tensors of the same names, and lists what fits, what is missing and likely
typos:

  $ ballast apply finetuned.safetensors --to model.bpk -o new.bpk
)"},

    {"adapters", "Convert between the layouts of frameworks",
     R"(Frameworks name tensors and orient matrices differently. An adapter renames and transposes them:

  $ ballast convert torch.safetensors burn.bpk --adapt pytorch-to-burn

Files do not store module types, so the adapter infers from names and shapes which matrices are Linear weights. If it
cannot, it lists the tensors and stops; --linear and --not-linear decide by pattern, --ambiguous for all others:

  $ ballast convert model.safetensors burn2.bpk --adapt pytorch-to-burn --linear 'attn|encoder|head' --ambiguous keep

Models of gpt.rs can get the names that transformers and torchvision expect, with a config.json, and convert back
byte for byte. Hugging Face folders are read directly, including their config.json:

  $ ballast convert checkpoint.gptrs gpt.safetensors --adapt gptrs-to-huggingface --write-config gpt.json
  $ ballast convert gpt.safetensors again.gptrs --adapt huggingface-to-gptrs
  $ ballast convert gpt2_folder gpt2.gptrs --adapt huggingface-to-gptrs

`ballast convert --help` lists all adapters.
)"},

    {"slices", "Print part of a tensor",
     R"(show prints values. A slice follows the name, in NumPy's notation; quote it to protect it from the shell. Indexes and
bounds may be negative; omitted axes are taken in full:

  $ ballast show model.safetensors 'encoder.weight[0:4, :]'
  $ ballast show model.safetensors 'encoder.bias[-1]' --precision 3
  $ ballast show model.npz 'encoder.weight[..., ::2]' --json

Only the bytes of the slice are read, however large the tensor. --format csv, npy or raw is for other programs. For
ranges, means and special values of whole tensors, use stats:

  $ ballast stats model.safetensors --only '^encoder'
)"},

    {"pipes", "Using ballast in scripts and pipelines",
     R"(Results go to standard output, errors to standard error as "ballast: ...". Piped output has no colours and is never
truncated. -q hides notes, timings and progress; -v reports time and memory. A reader that stops early is not an error:

  $ ballast inspect model.bpk --flat | head -3

- is standard input or standard output; named pipes and <(...) work, too:

  $ cat model.safetensors | ballast inspect -

--json prints one object on one line, errors included (see: ballast help json):

  $ ballast inspect model.safetensors --json | jq -r '.tensors[].name'
  $ ballast hash model.safetensors --json | jq -r .digest

The exit code reports the outcome (see: ballast help exit-codes):

  $ ballast diff a.safetensors b.safetensors > changes.txt || echo "they differ"
)"},

    {"digests", "What hash computes and what equal digests mean",
     R"(The digest of a tensor is BLAKE3 over its type, shape and values; that of a file is BLAKE3 over its tensors, sorted
by name. Neither depends on the format, the order in the file or the metadata: a file and its conversion have the same
digest, and it never changes between versions.

  $ ballast hash model.safetensors
  $ ballast hash model.npz --json

--write stores the digests next to the file, --check compares with them later:

  $ ballast hash model.safetensors --write
  $ ballast hash model.safetensors --check

--sha256 adds the SHA-256 of each tensor's bytes, for comparison with other programs.
)"},

    {"running", "Run models: generate text, classify images, trace operations",
     R"(Ballast runs Hugging Face folders, GGUF files, gpt.rs checkpoints and netcl models; `ballast models` lists the kinds.
Without a model, it uses the small one that comes with Ballast:

  $ ballast generate --prompt 'It was a fine' --max-tokens 20
  $ ballast forward --text 'It is a truth'

A Hugging Face folder runs as it is. import turns it, or weights of torchvision, into a single checkpoint:

  $ ballast generate gpt2_folder --tokens 1,2,3 --greedy --max-tokens 4
  $ ballast import gpt2_folder imported.gptrs

Parameters are read on demand. A budget limits the memory they occupy at any moment; the output stays the same:

  $ ballast generate --prompt 'It was a fine' --max-tokens 20 --param-budget 2MiB --stats

Record the output of every operation and compare, here between two backends:

  $ ballast trace checkpoint.gptrs --tokens 1,2,3 --out cpu.gten
  $ ballast trace checkpoint.gptrs --tokens 1,2,3 --out reference.gten --backend reference
  $ ballast diff --trace cpu.gten reference.gten --atol 1e-5
)"},

    {"origin", "How conversions can be undone (ballast.origin)",
     R"(If the target of a conversion cannot express part of the source (ids, order, a model config, how a number was
written), its metadata gets an extra value, ballast.origin, that describes the source. Later conversions start from it,
so converting back gives the original file byte for byte:

  $ ballast convert checkpoint.gptrs there.safetensors
  $ ballast convert there.safetensors back.gptrs
  $ cmp checkpoint.gptrs back.gptrs

inspect shows whether a file has one. The value is bound to the content: if another program changes tensors or
metadata, it becomes stale and is ignored with a note. Other programs see one extra metadata entry.
)"},

    {"json", "The objects that --json prints",
     R"(Every command that reports something accepts --json and prints one object on one line. Later versions may add
members; those described in docs/command.md keep their names and meanings. Sizes and offsets are in bytes, digests in
lower-case hexadecimal. inspect and hash of several files print {"files": [...]}.

  $ ballast inspect model.safetensors --json | jq '.tensors[0]'
  $ ballast verify model.npz --json | jq .sound

If a command fails, the object is {"error": {"code": ..., "message": ...}} and the exit code is the same as without
--json. Usage errors appear on standard error only.

  $ ballast inspect missing.npz --json || echo "exit code $?"
)"},

    {"exit-codes", "Exit codes of commands", BALLAST_EXIT_CODES R"(
A failed check and a damaged file give 1, so 2 always means that the question was not answered. Commands that take
several files exit with the highest code of all. diff gives 1 if only metadata differs, unless --ignore-metadata is
given.

  $ ballast verify model.safetensors && echo sound
  $ ballast diff a.safetensors b.safetensors; echo "exit code $?"
)"},

    {"security", "Protection against damaged and malicious files",
     R"(Ballast never executes anything from a file. Every number in a file is checked before use, memory is bounded by the
size of the file, and patterns have limits. Control characters and characters that hide or reorder text appear escaped
on a terminal.

verify lists every problem with its byte offset. By default it checks the structure; --level content also reads all
values:

  $ ballast verify model.bpk
  $ ballast verify --level content model.safetensors

Names of shards must not contain folders, so an index cannot point outside its own folder.
)"},
};

}  // namespace

std::span<const Topic> all_topics() { return kTopics; }

const Topic* find_topic(std::string_view name) {
  const auto found = std::ranges::find(kTopics, name, &Topic::name);
  return found == std::end(kTopics) ? nullptr : found;
}

std::string_view exit_code_table() { return BALLAST_EXIT_CODES; }

}  // namespace ballast::cli
