#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/commands/write_tensors.h"
#include "apps/ballast/flags/model_flags.h"
#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/table.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/terminal/console.h"
#include "apps/ballast/terminal/streams.h"
#include "ballast/runtime/embedder.h"

namespace ballast::cli {

namespace {

constexpr uint64_t kMostTextsBytes = uint64_t{1} << 28;
constexpr size_t kMostCompared = 4096;  // texts: --similarity has the square of that
constexpr size_t kShownNumbers = 4;
constexpr size_t kShownText = 40;  // columns
constexpr size_t kFlushVectorsAt = 1 << 16;

struct EmbedFlags {
  ModelFlags model;
  std::string tokenizer;
  std::vector<std::string> texts;
  std::string file;
  std::string out;
  bool similarity = false;
  bool json = false;
};

struct EmbeddedText {
  std::string text;
  size_t tokens = 0;
  size_t cut = 0;  // tokens that the model had no room for
};

struct EmbedResult {
  std::string kind;
  std::vector<EmbeddedText> texts;
  std::vector<float> vectors;  // [texts, width]
  size_t width = 0;
  double seconds = 0;

  std::span<const float> vector(size_t text) const { return std::span(vectors).subspan(text * width, width); }
};

// ---------------------------------------------------------------- texts

// One text a line; line i is vector i, so empty ones count.
void add_lines(std::string_view all, std::vector<std::string>& texts) {
  for (std::string_view line : lines_of(all)) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    texts.emplace_back(line);
  }
}

Result<std::vector<std::string>> gather_texts(const EmbedFlags& flags) {
  std::vector<std::string> texts = flags.texts;
  if (!flags.file.empty()) {
    BALLAST_TRY(const std::string all, read_text_input(flags.file, kMostTextsBytes));
    add_lines(all, texts);
  }
  if (texts.empty()) return make_error(ErrorCode::kInvalidArgument, "no texts: give --text TEXT or --file FILE");
  if (!flags.similarity || texts.size() <= kMostCompared) return texts;
  return make_error(ErrorCode::kInvalidArgument, fmt::format("--similarity compares at most {} with each other, not {}",
                                                             counted(kMostCompared, "text"), texts.size()));
}

// ---------------------------------------------------------------- vectors

Result<EmbedResult> embed_texts(const EmbedFlags& flags, const Embedder& embedder) {
  BALLAST_TRY(const std::vector<std::string> texts, gather_texts(flags));
  EmbedResult result;
  result.kind = embedder.model().kind();
  result.width = embedder.width();
  result.vectors.resize(texts.size() * result.width);
  auto out = result.vectors.begin();
  const auto start = std::chrono::steady_clock::now();
  BALLAST_TRY(const std::vector<Embedding> embeddings, embedder.embed(texts));
  for (size_t i = 0; i < texts.size(); ++i) {
    out = std::ranges::copy(embeddings[i].vector, out).out;
    result.texts.push_back({texts[i], embeddings[i].tokens, embeddings[i].cut});
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (flags.out.empty()) return result;
  BALLAST_TRY(const Tensor vectors, embedder.model().workspace().from(result.vectors, {texts.size(), result.width}));
  const NamedTensor named{"embeddings", vectors};
  BALLAST_CHECK(write_tensors(flags.out, std::span(&named, 1), flags.model.overwrite));
  return result;
}

// ---------------------------------------------------------------- printing

void add_vector(JsonWriter& json, std::span<const float> values) {
  json.key("vector").begin_array();
  for (const float value : values) {
    if (std::isfinite(value)) json.raw(fmt::format("{}", value));
    else json.real(static_cast<double>(value));
  }
  json.end_array();
}

void add_similarity(JsonWriter& json, const EmbedResult& result) {
  json.key("similarity").begin_array();
  for (size_t i = 0; i < result.texts.size(); ++i) {
    json.begin_array();
    for (size_t j = 0; j < result.texts.size(); ++j) json.real(cosine_similarity(result.vector(i), result.vector(j)));
    json.end_array();
  }
  json.end_array();
}

std::string embed_json(const EmbedResult& result, bool similarity) {
  JsonWriter json;
  json.begin_object();
  add_text(json, "kind", result.kind);
  add_number(json, "width", result.width);
  json.key("seconds").real(result.seconds).key("texts").begin_array();
  for (size_t i = 0; i < result.texts.size(); ++i) {
    json.begin_object();
    add_text(json, "text", result.texts[i].text);
    add_number(json, "tokens", result.texts[i].tokens);
    add_number(json, "cut", result.texts[i].cut);
    add_vector(json, result.vector(i));
    json.end_object();
  }
  json.end_array();
  if (similarity) add_similarity(json, result);
  json.end_object();
  return json.take() + '\n';
}

void print_similarity(const EmbedResult& result, Console& console) {
  for (size_t i = 0; i < result.texts.size() && !console.reader_gone(); ++i) {
    for (size_t j = 0; j < result.texts.size(); ++j) {
      fmt::format_to(std::back_inserter(console.out()), "{:>8.4f}",
                     cosine_similarity(result.vector(i), result.vector(j)));
    }
    console.out() += fmt::format("  {}\n", shorten(printable(result.texts[i].text), kShownText));
    if (console.out().size() > kFlushVectorsAt) console.flush();
  }
}

// For a person: the beginning of each.
void print_beginnings(const EmbedResult& result, Console& console) {
  Table table({{"tokens", Align::kRight}, {"vector"}, {"text", Align::kLeft, true}});
  for (size_t i = 0; i < result.texts.size(); ++i) {
    std::string numbers;
    for (const float value : result.vector(i).first(std::min(kShownNumbers, result.width))) {
      numbers += fmt::format("{:>9.6f} ", value);
    }
    table.add_row(std::to_string(result.texts[i].tokens), numbers + "...",
                  shorten(printable(result.texts[i].text), kShownText));
  }
  table.append_to(console.out(), console.output());
}

// For a program: all numbers, a line a vector.
void print_vectors(const EmbedResult& result, Console& console) {
  for (size_t i = 0; i < result.texts.size() && !console.reader_gone(); ++i) {
    console.out() += fmt::format("{}\n", fmt::join(result.vector(i), " "));
    if (console.out().size() > kFlushVectorsAt) console.flush();
  }
}

void print_embedding(const EmbedFlags& flags, const EmbedResult& result, Console& console) {
  if (flags.similarity) print_similarity(result, console);
  else if (console.output().interactive) print_beginnings(result, console);
  else if (flags.out.empty()) print_vectors(result, console);
}

void print_remarks(const EmbedFlags& flags, const EmbedResult& result, uint64_t room, Console& console) {
  for (size_t i = 0; i < result.texts.size(); ++i) {
    if (result.texts[i].cut == 0) continue;
    console.remark(fmt::format("note: text {} is longer than the model's {}: the last {} left out\n", i + 1,
                               counted(room, "token"),
                               counted(result.texts[i].cut, "token") + (result.texts[i].cut == 1 ? " is" : " are")));
  }
  console.remark(fmt::format("{}, vectors of {}, {:.1f} ms\n", counted(result.texts.size(), "text"), result.width,
                             result.seconds * 1e3));
  if (!flags.out.empty()) console.remark(fmt::format("wrote {}\n", printable(flags.out)));
}

int embed(const EmbedFlags& flags, Console& console) {
  const Status possible = check_outputs(flags.out, flags.model);
  if (!possible) return console.fail(possible.error(), flags.json);
  auto running = RunningModel::load(flags.model);
  if (!running) return console.fail(running.error(), flags.json);
  const auto embedder = Embedder::of((*running)->shared_model(), (*running)->source(), {.tokenizer = flags.tokenizer});
  if (!embedder) return console.fail(with_tokenizer_advice(embedder.error(), TokenizerAdvice::kTokenizer), flags.json);
  const auto result = embed_texts(flags, *embedder);
  if (!result) return console.fail(result.error(), flags.json);
  if (flags.json) console.out() += embed_json(*result, flags.similarity);
  else print_embedding(flags, *result, console);
  print_remarks(flags, *result, embedder->max_length(), console);
  const Status status = (*running)->finish(console);
  return status ? kExitYes : console.fail(status.error(), flags.json);
}

constexpr const char* kEmbedFooter =
    "Turns each text into one vector; texts with similar meanings get similar vectors. Pooling and L2 normalisation\n"
    "follow the model's files. A terminal shows the beginning of each vector; a pipe gets all numbers, one vector per\n"
    "line. --out stores them as tensor \"embeddings\". `ballast get minilm` downloads a suitable model.\n"
    "\n"
    "Examples:\n"
    "  ballast embed minilm --text 'A man is eating' --text 'Someone has a meal' --similarity\n"
    "  ballast embed minilm --file sentences.txt --out sentences.npy\n"
    "  ballast embed bert_folder --text 'Hello' --json\n";

}  // namespace

RunCommand add_embed(CLI::App& program, Console& console) {
  Command command(program, "embed", "Turn texts into vectors and compare them");
  auto flags = std::make_shared<EmbedFlags>();
  command.path("MODEL", flags->model.path, "Embedding model: a folder, a file, or the name of a downloaded model");
  command.texts("--text", "TEXT", flags->texts, "Embed this text; may be repeated");
  command.text("--file", "FILE", flags->file, "Embed each line of this file; - reads standard input");
  command.text("--tokenizer", "FILE", flags->tokenizer, "Use this tokenizer (default: the model's own)");
  command.written_file("--out", flags->out, "Store the vectors: .npy, .npz, .safetensors or .gten");
  command.flag("--similarity", flags->similarity, "Print the cosine similarity of every pair");
  add_model_flags(command, flags->model);
  command.json(flags->json);
  command.footer(kEmbedFooter);
  return [flags, &console] { return embed(*flags, console); };
}

}  // namespace ballast::cli
