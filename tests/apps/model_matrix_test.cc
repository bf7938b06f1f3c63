// Every way from one form of a model to another: what a command writes runs and gives the same logits, bit for bit, or
// the command refuses before it writes and says what would work. A new cell is a row.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "tests/apps/ballast_program.h"
#include "tests/support/json_path.h"
#include "tests/support/newer_gptrs.h"
#include "tests/support/recorded_models.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace fs = std::filesystem;

// What a source is given to compute.
enum class Input : uint8_t { kTokens, kValues };

struct MatrixSource {
  const char* name;
  Input input;
};
constexpr MatrixSource kSources[] = {
    {"folder", Input::kTokens},           // Hugging Face: llama, with its tokenizer
    {"gguf", Input::kTokens},             // the same
    {"gptrs", Input::kTokens},            // a GPT of gpt.rs's, with a tokenizer beside it
    {"newer-gptrs", Input::kTokens},      // of its later generation
    {"netcl", Input::kValues},            // layers
    {"torch", Input::kTokens},            // a GPT-2 as pytorch_model.bin with its config
    {"trained-text", Input::kTokens},     // made by `ballast train`
    {"trained-layers", Input::kValues},   // the same
    {"exported-file", Input::kTokens},    // trained-text by `checkpoints export`, as safetensors
    {"exported-folder", Input::kTokens},  // as a folder
    {"wrapped-gptrs", Input::kTokens},    // gptrs as safetensors
    {"wrapped-newer", Input::kTokens},    // newer-gptrs as safetensors
};

// How near the result must come to its source.
enum class Match : uint8_t {
  kBits,  // the same logits to the last bit, and the same tokens
  kRuns,  // quantised: it runs
};

struct Cell {
  const char* from;
  std::string command;       // SRC is the source, DST the destination, RUN a folder of checkpoints
  std::string to;            // the destination's name
  std::string refusal = {};  // what the error says; empty: the result runs
  Match match = Match::kBits;
};
std::ostream& operator<<(std::ostream& out, const Cell& cell) { return out << cell.command << " # from " << cell.from; }

std::string cell_name(const ::testing::TestParamInfo<Cell>& info) {
  std::string name = fmt::format("{}_{}_to_{}", info.param.from,
                                 info.param.command.substr(0, info.param.command.find(' ')), info.param.to);
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return fmt::format("{}_{}", name, info.index);
}

// What a model computes.
struct Answer {
  std::string logits;  // bytes of a file
  std::string tokens;  // greedy; of text models

  friend bool operator==(const Answer&, const Answer&) = default;
};

Answer answer_of(const std::string& model, Input input) {
  const TempFolder folder;
  std::vector<std::string> forward = {"forward", model, "--out", folder.path("y.npy")};
  if (input == Input::kTokens) {
    forward.insert(forward.end(), {"--tokens", "1,2,3"});
  } else {
    forward.insert(forward.end(), {"--input", test_file_path("netcl/train_mlp_data.npz"), "--input-key", "x"});
  }
  const ProgramRun run = run_ballast(forward);
  EXPECT_EQ(run.exit_code, 0) << model << ": " << run.err;
  Answer answer;
  if (run.exit_code == 0) answer.logits = read_text_file(folder.path("y.npy"));
  if (input == Input::kValues) return answer;
  const ProgramRun text =
      run_ballast({"generate", model, "--tokens", "1,2,3", "--greedy", "--max-tokens", "6", "--json"});
  EXPECT_EQ(text.exit_code, 0) << model << ": " << text.err;
  if (text.exit_code == 0) answer.tokens = json_at(text.out, "tokens");
  return answer;
}

// One set of sources for all cells: making them costs more than a cell.
class ModelMatrix : public ::testing::TestWithParam<Cell> {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    make_text_sources();
    make_layers();
    train_text();
    train_layers();
    export_text();
    wrap_gptrs();
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
    answers_.clear();
  }

  static std::string path(const std::string& name) { return folder_->path(name); }
  static void copy(const std::string& from, const std::string& to) {
    fs::create_directories(fs::path(path(to)).parent_path());
    fs::copy_file(test_file_path(from), path(to));
  }
  static void run_well(const std::vector<std::string>& words) {
    const ProgramRun run = run_ballast(words);
    ASSERT_EQ(run.exit_code, 0) << words[0] << ": " << run.err;
  }

  static void make_text_sources() {
    copy("gguf/tiny/tiny_llama.f32.gguf", "gguf/model.gguf");
    sources_["gguf"] = path("gguf/model.gguf");
    run_well({"convert", sources_["gguf"], path("folder/")});
    sources_["folder"] = path("folder");
    copy("gptrs/gpt_base/model.gptrs", "gptrs/model.gptrs");
    fs::copy_file(gptrs_tokenizer_path(), path("gptrs/tokenizer.json"));
    sources_["gptrs"] = path("gptrs/model.gptrs");
    fs::create_directory(path("newer"));
    sources_["newer-gptrs"] =
        folder_->write("newer/model.gptrs", newer_gptrs_of(test_file_path("hf/llama_bf16"), "ministral"));
    fs::copy(test_file_path("hf/gpt2_torch"), path("torch"));
    sources_["torch"] = path("torch");
  }
  static void make_layers() {
    copy("netcl/train_mlp_init.netcl", "netcl/model.netcl");
    sources_["netcl"] = path("netcl/model.netcl");
  }
  static void train_text() {
    fs::create_directory(path("text"));
    folder_->write("text/corpus.txt", std::string(600, 'a') + "bcdbcdbcd" + std::string(600, 'e'));
    folder_->write("text/run.toml",
                   "[model]\nkind = \"gpt\"\nvocab_size = 256\ncontext_length = 16\nembed_dim = 16\nnum_layers = 1\n"
                   "num_heads = 2\nmlp_ratio = 2\ngelu = \"tanh\"\n[data]\nkind = \"text\"\npath = "
                   "\"corpus.txt\"\ntokenizer = \"bytes\"\n"
                   "[optimizer]\ntype = \"adamw\"\nlr = 0.01\n[train]\nsteps = 4\nbatch_size = 2\nseed = 1\n"
                   "output = \"model.gptrs\"\n[checkpoint]\nfolder = \"run\"\nevery = 2\n");
    run_well({"train", path("text/run.toml"), "--quiet"});
    sources_["trained-text"] = path("text/model.gptrs");
  }
  static void train_layers() {
    fs::create_directory(path("layers"));
    copy("netcl/train_mlp_data.npz", "layers/data.npz");
    folder_->write("layers/run.toml",
                   "[model]\ninit = \"" + sources_["netcl"] +
                       "\"\n[data]\nkind = \"npz\"\npath = \"data.npz\"\n[optimizer]\ntype = \"adam\"\n"
                       "lr = 0.01\n[train]\nsteps = 4\nbatch_size = 8\noutput = \"model.netcl\"\n"
                       "[checkpoint]\nfolder = \"run\"\nevery = 2\n");
    run_well({"train", path("layers/run.toml"), "--quiet"});
    sources_["trained-layers"] = path("layers/model.netcl");
  }

  static void export_text() {
    for (const auto& [name, out] :
         {std::pair("exported-file", "exported/model.safetensors"), {"exported-folder", "exported-folder/"}}) {
      sources_[name] = path(out);
      run_well({"checkpoints", "export", path("text/run"), "latest", path(out)});
    }
  }
  static void wrap_gptrs() {
    for (const auto& [name, from] : {std::pair("wrapped-gptrs", "gptrs"), {"wrapped-newer", "newer-gptrs"}}) {
      fs::create_directory(path(name));
      sources_[name] = path(std::string(name) + "/model.safetensors");
      run_well({"convert", sources_[from], sources_[name]});
    }
  }

  static Input input_of(const std::string& source) {
    return std::ranges::find(kSources, source, &MatrixSource::name)->input;
  }
  static const Answer& expected(const std::string& source) {
    const auto found = answers_.find(source);
    if (found != answers_.end()) return found->second;
    return answers_[source] = answer_of(sources_.at(source), input_of(source));
  }

  static inline TempFolder* folder_ = nullptr;
  static inline std::map<std::string, std::string> sources_;
  static inline std::map<std::string, Answer> answers_;
};

std::vector<std::string> words_of(const std::string& command, const std::map<std::string, std::string>& places) {
  std::vector<std::string> words;
  std::istringstream text(command);
  for (std::string word; text >> word;) {
    const auto place = places.find(word);
    words.push_back(place == places.end() ? word : place->second);
  }
  return words;
}

TEST_P(ModelMatrix, RunsWithTheSameLogitsOrIsRefusedBeforeAnythingIsWritten) {
  const Cell& cell = GetParam();
  const TempFolder out;
  const std::string source = sources_.at(cell.from), destination = out.path(cell.to);
  const std::string run_folder = (fs::path(source).parent_path() / "run").string();
  const std::string config = (fs::path(source).parent_path() / "run.toml").string();
  const ProgramRun run = run_ballast(
      words_of(cell.command, {{"SRC", source}, {"DST", destination}, {"RUN", run_folder}, {"CONFIG", config}}));
  if (!cell.refusal.empty()) {
    EXPECT_EQ(run.exit_code, 2) << run.out;
    EXPECT_THAT(run.err, HasSubstr(cell.refusal));
    EXPECT_THAT(out.names(), IsEmpty());
    return;
  }
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Answer answer = answer_of(destination, input_of(cell.from));
  if (cell.match == Match::kRuns) return;
  EXPECT_EQ(answer.tokens, expected(cell.from).tokens);
  EXPECT_TRUE(answer.logits == expected(cell.from).logits) << "other logits";
}

const std::string kConvert = "convert SRC DST";

INSTANTIATE_TEST_SUITE_P(
    FromAFolder, ModelMatrix,
    ::testing::Values(Cell{"folder", kConvert, "out/"}, Cell{"folder", kConvert, "out.gguf"},
                      Cell{"folder", kConvert, "out.gptrs"}, Cell{"folder", "import SRC DST", "out.gptrs"},
                      Cell{"folder", "import SRC DST", "out.gguf", "`ballast convert`"},
                      Cell{"folder", kConvert, "out.safetensors", "name a folder (ending in /)"},
                      Cell{"folder", kConvert, "out.netcl", "name a folder (ending in /)"},
                      Cell{"folder", kConvert, "out.npz", "--container-only"},
                      Cell{"folder", "merge SRC -o DST", "out/"},
                      Cell{"folder", "merge SRC -o DST", "out.gguf", "use `ballast convert`"},
                      Cell{"folder", "merge SRC -o DST", "out.safetensors", "--container-only"},
                      Cell{"folder", "split SRC -o DST --shard-size 100kB", "out/"},
                      Cell{"folder", "split SRC -o DST --count 2", "part-{}.safetensors", "--shard-size"},
                      Cell{"folder", "quantize SRC DST --type q8_0", "out.gguf", "", Match::kRuns}),
    cell_name);

INSTANTIATE_TEST_SUITE_P(FromGguf, ModelMatrix,
                         ::testing::Values(Cell{"gguf", kConvert, "out.gguf"}, Cell{"gguf", kConvert, "out/"},
                                           Cell{"gguf", kConvert, "out.gptrs"},
                                           Cell{"gguf", kConvert, "out.safetensors", "name a folder (ending in /)"},
                                           Cell{"gguf", kConvert, "out.netcl", "name a folder (ending in /)"},
                                           Cell{"gguf", "import SRC DST", "out.gptrs", "needs no import"},
                                           Cell{"gguf", "merge SRC -o DST", "out.gguf"},
                                           Cell{"gguf", "merge SRC -o DST", "out/", "use `ballast convert`"},
                                           Cell{"gguf", "split SRC -o DST --count 2", "part-{}.gguf", "ballast merge"},
                                           Cell{"gguf", "quantize SRC DST --type q4_0", "out.gguf", "", Match::kRuns}),
                         cell_name);

INSTANTIATE_TEST_SUITE_P(
    FromGptRs, ModelMatrix,
    ::testing::Values(Cell{"gptrs", kConvert, "out.gptrs"}, Cell{"gptrs", kConvert, "out.safetensors"},
                      Cell{"gptrs", kConvert, "out/"},
                      Cell{"gptrs", kConvert, "out.gguf", "--container-only"},  // llama.cpp has no exact GELU
                      Cell{"gptrs", kConvert, "out.netcl", "name a .gptrs"},
                      Cell{"gptrs", kConvert, "out.bpk", "name a .gptrs"},
                      Cell{"gptrs", "import SRC DST", "out.gptrs", "needs no import"},
                      Cell{"gptrs", "merge SRC -o DST", "out.gptrs"},
                      Cell{"gptrs", "merge SRC -o DST", "out.safetensors"},
                      Cell{"gptrs", "merge SRC -o DST", "out.gguf", "--container-only"},
                      Cell{"gptrs", "split SRC -o DST --shard-size 50kB --to safetensors", "out/", "--container-only"},
                      Cell{"gptrs", "split SRC -o DST --count 2", "part-{}.gptrs", "--container-only"},
                      Cell{"newer-gptrs", kConvert, "out.gptrs"}, Cell{"newer-gptrs", kConvert, "out.safetensors"},
                      Cell{"newer-gptrs", kConvert, "out/"}, Cell{"newer-gptrs", kConvert, "out.gguf"}),
    cell_name);

INSTANTIATE_TEST_SUITE_P(FromLayers, ModelMatrix,
                         ::testing::Values(Cell{"netcl", kConvert, "out.netcl"},
                                           Cell{"netcl", kConvert, "out.safetensors"}, Cell{"netcl", kConvert, "out/"},
                                           Cell{"netcl", kConvert, "out.gguf", "name a .netcl or .safetensors"},
                                           Cell{"netcl", kConvert, "out.gptrs", "name a .netcl or .safetensors"},
                                           Cell{"netcl", "import SRC DST", "out.gptrs", "needs no import"},
                                           Cell{"netcl", "merge SRC -o DST", "out.netcl"},
                                           Cell{"netcl", "merge SRC -o DST", "out.safetensors"},
                                           Cell{"netcl", "merge SRC -o DST", "out.bpk", "--container-only"},
                                           Cell{"netcl", "split SRC -o DST --shard-size 1kB --to safetensors", "out/"},
                                           Cell{"netcl", "split SRC -o DST --count 2", "part-{}.netcl",
                                                "--container-only"}),
                         cell_name);

INSTANTIATE_TEST_SUITE_P(FromPyTorch, ModelMatrix,
                         ::testing::Values(Cell{"torch", kConvert, "out/"}, Cell{"torch", kConvert, "out.gguf"},
                                           Cell{"torch", kConvert, "out.gptrs"},
                                           Cell{"torch", "import SRC DST", "out.gptrs"},
                                           Cell{"torch", kConvert, "out.safetensors", "name a folder (ending in /)"},
                                           Cell{"torch", kConvert, "out.netcl", "name a folder (ending in /)"}),
                         cell_name);

INSTANTIATE_TEST_SUITE_P(
    FromTraining, ModelMatrix,
    ::testing::Values(Cell{"trained-text", "checkpoints export RUN latest DST", "out.gptrs"},
                      Cell{"trained-text", "checkpoints export RUN latest DST", "out.safetensors"},
                      Cell{"trained-text", "checkpoints export RUN latest DST", "out.gguf"},
                      Cell{"trained-text", "checkpoints export RUN latest DST", "out/"},
                      Cell{"trained-text", "checkpoints export RUN latest DST", "out.bpk", "--container-only"},
                      Cell{"trained-text", kConvert, "out/"}, Cell{"trained-text", kConvert, "out.gguf"},
                      Cell{"trained-text", "train CONFIG --quiet --out DST", "out.gptrs"},
                      Cell{"trained-text", "train CONFIG --quiet --out DST", "out/", "name a file in it"},
                      Cell{"trained-layers", "checkpoints export RUN latest DST", "out.netcl"},
                      Cell{"trained-layers", "checkpoints export RUN latest DST", "out.safetensors"},
                      Cell{"trained-layers", "checkpoints export RUN latest DST", "out/"},
                      Cell{"trained-layers", "checkpoints export RUN latest DST", "out.gguf", "name a .netcl"},
                      Cell{"trained-layers", "checkpoints export RUN latest DST", "out.gptrs", "name a .netcl"},
                      Cell{"trained-layers", kConvert, "out.safetensors"}),
    cell_name);

INSTANTIATE_TEST_SUITE_P(
    FromWhatWasExported, ModelMatrix,
    ::testing::Values(Cell{"exported-file", kConvert, "out/"}, Cell{"exported-file", kConvert, "out.gguf"},
                      Cell{"exported-file", kConvert, "out.gptrs"}, Cell{"exported-file", kConvert, "out.safetensors"},
                      Cell{"exported-file", kConvert, "out.netcl", "name a .gptrs"},
                      Cell{"exported-file", "quantize SRC DST --type q8_0", "out.gguf", "", Match::kRuns},
                      Cell{"exported-folder", kConvert, "out/"}, Cell{"exported-folder", kConvert, "out.gguf"},
                      Cell{"exported-folder", kConvert, "out.gptrs"},
                      Cell{"exported-folder", kConvert, "out.safetensors", "name a folder (ending in /)"}),
    cell_name);

INSTANTIATE_TEST_SUITE_P(FromGptRsAsSafetensors, ModelMatrix,
                         ::testing::Values(Cell{"wrapped-gptrs", kConvert, "out/"},
                                           Cell{"wrapped-gptrs", kConvert, "out.gptrs"},
                                           Cell{"wrapped-gptrs", kConvert, "out.gguf", "can be copied to safetensors"},
                                           Cell{"wrapped-newer", kConvert, "out/"},
                                           Cell{"wrapped-newer", kConvert, "out.gguf"},
                                           Cell{"wrapped-newer", kConvert, "out.gptrs"}),
                         cell_name);

}  // namespace
}  // namespace ballast::testing
