#include "apps/ballast/topics.h"

#include <algorithm>

namespace ballast::cli {

namespace {

// Shown by --help too.
#define BALLAST_EXIT_CODES                                                 \
  "  0    done; the check says yes\n"                                      \
  "  1    the check says no: files differ, a recognised file is damaged\n" \
  "  2    could not do it: missing, unreadable, unknown format, usage\n"   \
  "  130  interrupted\n"

constexpr Topic kTopics[] = {
    {"files", "What a path may be, and how the format of a file is found",
     R"(The content of a file decides what it is, never its name. A path may be
  a file of any known format
  a folder, or a *.index.json, of safetensors shards
  the common beginning of a pair: run for run.json and run.npz

  $ ballast formats
  $ ballast inspect model.bpk

When writing, the extension of the destination chooses the format, or --to does:

  $ ballast convert model.npz model.bin --to safetensors
  $ ballast convert model.safetensors archive.npz --compress

Old versions of a format are read, and written back as they were. --target asks for the form that a certain
reader takes:

  $ ballast convert model.safetensors old.bpk --target burn-0.20
)"},

    {"patterns", "Regular expressions that choose tensors: --only, --exclude and others",
     R"(A pattern is a regular expression (PCRE2, UTF-8) that is looked for anywhere in a tensor's name; ^ and $ anchor it.
Quote it, or the shell will change it. A dot stands for any character, \. for a dot:

  $ ballast inspect model.safetensors --only '^blocks\.0\.'
  $ ballast inspect model.safetensors --only 'weight$' --flat

Options that take patterns may be repeated. --only keeps what one of them finds, --exclude then drops:

  $ ballast convert model.safetensors part.safetensors --only '^blocks\.' --exclude '\.10\.'

Patterns have limits on steps and memory, so that none can hang: one that exceeds them is an error.
)"},

    {"conversion", "What a conversion keeps, and what it does when it cannot",
     R"(convert keeps everything: values bit by bit, names, order, types, shapes, metadata, the model config, ids. What
the target has no field for travels in its free metadata (see: ballast help origin). Where that is impossible, for
instance for a dtype that the target does not know, the command says what would be lost and stops with exit code 2.
--dry-run says it without writing; --allow-lossy goes on.

  $ ballast convert model.npz model.safetensors --dry-run
  $ ballast convert model.bpk out.safetensors
  $ ballast diff model.bpk out.safetensors

A destination that exists is left alone unless --overwrite is given. The result appears whole or not at all: it is
written beside the destination, synced to the disk and then renamed. --no-sync does not wait for the disk.

A format that needs a model config takes it from the source, or from --config:

  $ ballast convert model.safetensors model.gptrs --config config.json

A model stays a model: the result runs, or nothing is written and the error says what would work. --container-only
changes the container alone, and keeps names and layouts:

  $ ballast convert checkpoint.gptrs model_of_gptrs.safetensors
  $ ballast convert checkpoint.gptrs tensors.npz --container-only
)"},

    {"changes", "Changing names, types and layouts on the way",
     R"(convert changes tensors between source and destination when flags ask for it. They work in the order in which they
stand on the command line, each on what the one before left, after --only and --exclude chose the tensors.

--rename replaces every match of a pattern in every name; $1 is the first group. --renumber closes gaps:

  $ ballast convert model.safetensors renamed.safetensors --rename '^blocks\.(\d+)=layers.$1' --renumber

--dtype casts floating tensors and says how far values moved; --keep leaves some alone:

  $ ballast convert model.safetensors half.safetensors --dtype bf16 --keep norm

apply puts weights into a model that has tensors of these names, and lists what fits, what is missing and what was
meant:

  $ ballast apply finetuned.safetensors --to model.bpk -o new.bpk
)"},

    {"adapters", "The same weights as another framework lays them out",
     R"(Frameworks disagree on names and on the orientation of matrices. An adapter turns and renames tensors:

  $ ballast convert torch.safetensors burn.bpk --adapt pytorch-to-burn

Files hold no module types, so names and shapes must tell which matrices are Linear weights. Where they do not, the
adapter lists the tensors and stops; --linear and --not-linear decide by pattern, --ambiguous for all the rest:

  $ ballast convert model.safetensors burn2.bpk --adapt pytorch-to-burn --linear 'attn|encoder|head' --ambiguous keep

Models of gpt.rs get the names that transformers and torchvision expect, with a config.json beside them, and come back
byte for byte. A folder of Hugging Face is read as it is, with its config.json:

  $ ballast convert checkpoint.gptrs gpt.safetensors --adapt gptrs-to-huggingface --write-config gpt.json
  $ ballast convert gpt.safetensors again.gptrs --adapt huggingface-to-gptrs
  $ ballast convert gpt2_folder gpt2.gptrs --adapt huggingface-to-gptrs

`ballast convert --help` lists all adapters.
)"},

    {"slices", "Values of part of a tensor",
     R"(show prints values. A slice follows the name, as NumPy writes it; quote it, or the shell will change it. Indexes and
bounds may be negative, axes left out are taken whole:

  $ ballast show model.safetensors 'encoder.weight[0:4, :]'
  $ ballast show model.safetensors 'encoder.bias[-1]' --precision 3
  $ ballast show model.npz 'encoder.weight[..., ::2]' --json

Only the bytes of the slice are read, however large the tensor is. --format csv, npy or raw give the values to other
programs. Ranges, means and special values of whole tensors:

  $ ballast stats model.safetensors --only '^encoder'
)"},

    {"pipes", "Using ballast in scripts and pipelines",
     R"(Results go to standard output, errors to standard error as "ballast: ...". Piped output has no colours and is never
cut to the width of a terminal. A reader that stops early is no failure:

  $ ballast inspect model.bpk --flat | head -3

--json prints one object on one line, errors included (see: ballast help json):

  $ ballast inspect model.safetensors --json | jq -r '.tensors[].name'
  $ ballast hash model.safetensors --json | jq -r .digest

The exit code tells the outcome (see: ballast help exit-codes):

  $ ballast diff a.safetensors b.safetensors > changes.txt || echo "they differ"
)"},

    {"digests", "What hash computes, and what equal digests mean",
     R"(The digest of a tensor is BLAKE3 over its type, shape and values; that of an archive is BLAKE3 over its tensors in
order of names. Neither depends on the format, the order in the file or metadata: a file and its conversion have the
same digest, and it will never change between versions.

  $ ballast hash model.safetensors
  $ ballast hash model.npz --json

--write keeps the digests beside the file, --check compares with them later:

  $ ballast hash model.safetensors --write
  $ ballast hash model.safetensors --check

--sha256 adds SHA-256 of each tensor's bytes, for comparison with other programs.
)"},

    {"running", "Letting models write, classify, and show what they compute",
     R"(A checkpoint of gpt.rs says what kind of model it holds, so it can be run; `ballast models` lists the kinds. Without
a model named, the small one that comes with Ballast runs:

  $ ballast generate --prompt 'It was a fine' --max-tokens 20
  $ ballast forward --text 'It is a truth'

Weights of Hugging Face and torchvision become such a checkpoint first:

  $ ballast import gpt2_folder imported.gptrs
  $ ballast generate imported.gptrs --tokens 1,2,3 --greedy --max-tokens 4

Parameters are read when they are touched. A budget bounds what they occupy, at any instant; the text stays the same:

  $ ballast generate --prompt 'It was a fine' --max-tokens 20 --param-budget 2MiB --stats

What every operation computed can be kept and compared, here on two backends:

  $ ballast trace checkpoint.gptrs --tokens 1,2,3 --out cpu.gten
  $ ballast trace checkpoint.gptrs --tokens 1,2,3 --out reference.gten --backend reference
  $ ballast diff --trace cpu.gten reference.gten --atol 1e-5
)"},

    {"origin", "How a conversion can be undone: ballast.origin",
     R"(When the target of a conversion has no field for part of the source (ids, order, a model config, how a number was
spelled), its free metadata gets one value, ballast.origin, that describes the source. Converting onwards starts from
it again, so that going back gives the original file byte for byte:

  $ ballast convert checkpoint.gptrs there.safetensors
  $ ballast convert there.safetensors back.gptrs
  $ cmp checkpoint.gptrs back.gptrs

inspect shows when a file carries one. The value is bound to the content: once another program has changed tensors or
metadata it is stale, and ignored with a note. Other programs see one more metadata entry.
)"},

    {"json", "The objects that --json prints",
     R"(Every command that reports something takes --json and prints one object on one line. Members may be added in later
versions; those described in docs/command.md keep their names and meanings. Sizes and offsets are in bytes, digests in
lower-case hexadecimal.

  $ ballast inspect model.safetensors --json | jq '.tensors[0]'
  $ ballast verify model.npz --json | jq .sound

When the work could not be done the object is {"error": {"code": ..., "message": ...}}, and the exit code is as without
--json. Wrong usage is told on standard error only.

  $ ballast inspect missing.npz --json || echo "exit code $?"
)"},

    {"exit-codes", "What the exit code of a command means", BALLAST_EXIT_CODES R"(
A check that fails and a file that is damaged give 1, so that 2 always means that the question was not answered.
verify of several files ends with the highest code of all.

  $ ballast verify model.safetensors && echo sound
  $ ballast diff a.safetensors b.safetensors; echo "exit code $?"
)"},

    {"security", "What protects against damaged and hostile files",
     R"(Formats read here hold numbers and names, never code: nothing in a file is executed. Every number in a file is
checked before it is used, memory is bounded by the size of the file, and patterns have limits. Names with control
characters, or with characters that hide or reorder text, appear escaped on a terminal.

verify reports everything that is wrong, with byte offsets. By default it checks the structure; --level content also
reads all values:

  $ ballast verify model.bpk
  $ ballast verify --level content model.safetensors

A name of a shard is a plain name without folders, so that an index cannot point outside its own folder.
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
