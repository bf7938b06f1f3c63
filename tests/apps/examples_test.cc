// Runs the examples of every topic and of every command's --help, as a user would paste them.
#include <gmock/gmock.h>

#include <filesystem>
#include <regex>

#include "tests/apps/ballast_program.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

// ---------------------------------------------------------------- what the examples are

// Examples of a topic begin with "  $ "; those of --help with "  ballast " below "Examples:". An explanation may follow
// after two spaces.
std::vector<std::string> examples_in(const std::string& text) {
  std::vector<std::string> examples;
  bool below_heading = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool indented = line.starts_with("  ");
    if (!indented) below_heading = line == "Examples:";
    const bool prompted = line.starts_with("  $ ");
    if (!prompted && !(indented && below_heading)) continue;
    const std::string example = line.substr(prompted ? 4 : 2);
    examples.push_back(example.substr(0, example.find("  ")));
  }
  return examples;
}

// ---------------------------------------------------------------- the files that they name

void copy_data(const TempFolder& folder, const std::string& data, const std::string& name) {
  std::filesystem::copy_file(test_file_path(data), folder.path(name));
}

// The tensors that examples talk of, in PyTorch's layout.
WritePlan example_plan(unsigned first) {
  WritePlan plan;
  plan.description.metadata = {{"note", std::string("for examples")}};
  const auto add = [&](std::string name, Shape shape) {
    TensorInfo info = make_info(std::move(name), DType::kF32, std::move(shape));
    std::vector<float> values(info.byte_size / 4);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i * 7 + first) % 64) / 32 - 1;
    const auto bytes = std::as_bytes(std::span(values));
    plan.add_tensor(info, [copy = ByteVector(bytes.begin(), bytes.end())](ByteSink& sink) { return sink.write(copy); });
  };
  for (const std::string block : {"0", "1", "10"}) {
    add("blocks." + block + ".attn.weight", {24, 8});
    add("blocks." + block + ".norm.weight", {8});
    add("blocks." + block + ".weight", {8, 3});
    add("blocks." + block + ".bias", {8});
  }
  add("embedding", {120, 4});
  add("encoder.weight", {16, 8});
  add("encoder.bias", {16});
  add("head", {4, 16});
  add("wte.weight", {32, 8});
  return plan;
}

// With flags that change tensors on the way.
void convert_with(const TempFolder& folder, const std::string& source, const std::string& name,
                  const std::vector<std::string>& flags) {
  std::vector<std::string> arguments = {"convert", folder.path(source), folder.path(name)};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  const ProgramRun run = run_ballast(arguments);
  ASSERT_EQ(run.exit_code, 0) << name << ": " << run.err;
}

void copy_sample(const TempFolder& folder, const std::string& from, const std::string& to) {
  std::filesystem::copy_file(folder.path(from), folder.path(to));
}

// Digits to train with, and the checkpoints of a run.
void make_training_run(const TempFolder& folder) {
  std::filesystem::copy_file(test_file_path("../../models/digits/train.npz"), folder.path("digits.npz"));
  std::filesystem::copy_file(test_file_path("../../models/digits/test/7.png"), folder.path("seven.png"));
  copy_data(folder, "netcl/train_mlp_init.netcl", "model.netcl");
  copy_data(folder, "netcl/train_mlp_data.npz", "data.npz");
  folder.write("digits.toml", R"(
[model]
kind = "sequential"
layers = [
  { type = "Conv2d", in_channels = 1, out_channels = 4, kernel_size = 3 },
  { type = "ReLU" },
  { type = "Flatten" },
  { type = "Linear", in_features = 144, out_features = 10 },
]
[data]
kind = "npz"
path = "digits.npz"
shape = [1, 8, 8]
divide_by = 16
held_out = 0.2
[train]
steps = 40
output = "digits.netcl"
[checkpoint]
folder = "runs/digits"
every = 20
)");
  const ProgramRun run = run_ballast({"train", folder.path("digits.toml"), "--quiet"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
}

// Notes to train a text model on, and the checkpoint of a run.
void make_text_run(const TempFolder& folder) {
  std::string notes;
  for (int i = 0; i < 20; ++i) notes += "the cat sat on the mat. ";
  folder.write("notes.txt", notes);
  folder.write("notes.toml", R"(
[model]
kind = "gpt"
context_length = 16
embed_dim = 16
num_layers = 1
num_heads = 2
[data]
kind = "text"
path = "notes.txt"
tokenizer = "bytes"
[train]
steps = 2
batch_size = 2
[checkpoint]
folder = "runs/notes"
)");
  const ProgramRun run = run_ballast({"train", folder.path("notes.toml"), "--quiet"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
}

// A small model with a chat template of its own, and a template by itself.
void make_chat_model(const TempFolder& folder) {
  const std::string chat = "{% for message in messages %}{{ message.content }}\n{% endfor %}";
  copy_data(folder, "gguf/tiny/tiny_llama.q4_0.gguf", "model.gguf");
  const ProgramRun run = run_ballast({"edit", folder.path("model.gguf"), "--set", "tokenizer.chat_template=" + chat});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  folder.write("chat.jinja", chat);
  copy_data(folder, "gguf/tiny/tiny_llama.q4_0.gguf", "llama.gguf");
  const ProgramRun made =
      run_ballast({"convert", folder.path("llama.gguf"), folder.path("llama_model/"), "--dequantize", "f32"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
}

// Every file that an example reads. A new example with another file needs a line here.
void make_sample_files(const TempFolder& folder) {
  write_plan(folder, "model.safetensors", example_plan(1));
  write_plan(folder, "b.safetensors", example_plan(2));
  WritePlan decoder;
  decoder.add_tensor(make_info("decoder.weight", DType::kF32, {2, 2}),
                     [](ByteSink& sink) { return sink.write(counting_bytes(16)); });
  write_plan(folder, "decoder.safetensors", decoder);
  for (const char* name : {"a.safetensors", "base.safetensors"}) copy_sample(folder, "model.safetensors", name);
  std::filesystem::create_directory(folder.path("checkpoints"));
  for (const char* name :
       {"model.npz", "big.npz", "before.npz", "a.npz", "weights.npz", "checkpoints/1.bpk", "checkpoints/2.bpk"}) {
    convert_with(folder, "model.safetensors", name, {});
  }
  for (const char* name : {"after.npz", "b.npz"}) convert_with(folder, "b.safetensors", name, {});
  // Burn's files lie as Burn has them, PyTorch's below "net.".
  convert_with(folder, "model.safetensors", "model.bpk", {"--adapt", "pytorch-to-burn"});
  convert_with(folder, "b.safetensors", "finetuned.safetensors", {"--adapt", "pytorch-to-burn"});
  convert_with(folder, "finetuned.safetensors", "backbone.safetensors", {"--only", "^encoder"});
  convert_with(folder, "model.safetensors", "encoder.safetensors", {"--only", "^encoder"});
  convert_with(folder, "model.safetensors", "torch.safetensors", {"--rename", "^=net."});
  const std::string whole = read_text_file(folder.path("model.safetensors"));
  folder.write("cut.safetensors", whole.substr(0, whole.size() - 100));
  folder.write("download.bin", "<!DOCTYPE html><html>not found</html>");
  folder.write("config.json", R"({"kind":"gpt","config":{}})");
  for (const char* name : {"checkpoint.gptrs", "model.gptrs"}) copy_data(folder, "gptrs/gpt_micro/model.gptrs", name);
  for (const char* name : {"run1.tensors", "run2.tensors"}) copy_data(folder, "gptrs/gpt_micro/trace.gptrsten", name);
  copy_data(folder, "tokenizers/gptrs_flat.json", "tokenizer.json");
  folder.write("README.md", "# A model\n");
  for (const char* name : {"sample.txt", "held_out.txt"}) copy_data(folder, "text/held_out.txt", name);
  make_training_run(folder);
  make_text_run(folder);
  make_chat_model(folder);
  std::filesystem::copy(test_file_path("huggingface/gpt2"), folder.path("gpt2_folder"));
  std::filesystem::copy(test_file_path("hf/bert"), folder.path("bert_folder"));
  folder.write("bert_folder/tokenizer.json",
               R"({"model":{"type":"WordPiece","unk_token":"?","continuing_subword_prefix":"##",)"
               R"("max_input_chars_per_word":100,"vocab":{"?":1,"Hello":2}}})");
}

// Made once; every text gets a copy.
const TempFolder& sample_folder() {
  static const TempFolder folder;
  static const bool made = (make_sample_files(folder), true);
  EXPECT_TRUE(made);
  return folder;
}

// ---------------------------------------------------------------- running them

// Not those of models that must be fetched first: a test does not go to the network. Nor does it open a browser.
bool can_run(const std::string& example) {
  if (std::regex_search(example, std::regex("smollm2|minilm|SmolLM2|ORG/NAME|--open\\b"))) return false;
  const std::pair<const char*, const char*> needs[] = {
      {"jq", "command -v jq"}, {"man", "command -v man"}, {"python3", "python3 -c 'import numpy'"}};
  for (const auto& [program, check] : needs) {
    if (!std::regex_search(example, std::regex(fmt::format("\\| {}\\b", program)))) continue;
    if (run_program({"/bin/sh", "-c", check}).exit_code != 0) return false;
  }
  return true;
}

// The page is served until Ctrl-C, which comes as soon as the address is there.
std::string ended_by_interrupt(const std::string& example) {
  return fmt::format("exec 3< <(exec {}); served=$!; read -r address <&3 && kill -INT $served; wait $served", example);
}

ProgramRun run_example(const TempFolder& folder, const std::string& example) {
  const std::string programs = std::filesystem::path(program_path()).parent_path().string();
  const std::string script = example.starts_with("ballast lens") ? ended_by_interrupt(example) : example;
  return run_program(
      {"/bin/bash", "-c", fmt::format("set -o pipefail; PATH={}:$PATH; cd {}; {}", programs, folder.path(), script)});
}

// A destination that is also a sample file must not be there yet: take it away and try once more.
ProgramRun run_with_free_destination(const TempFolder& folder, const std::string& example) {
  ProgramRun run = run_example(folder, example);
  std::smatch found;
  const std::regex exists("^ballast: ([^:]+): (?:already )?exists");
  if (run.exit_code != 2 || !std::regex_search(run.err, found, exists)) return run;
  std::filesystem::path taken(found[1].str());
  std::filesystem::remove(taken.is_absolute() ? taken : folder.path() / taken);
  return run_example(folder, example);
}

// Examples of one text run in one folder, one after the other, as a reader would try them.
void expect_examples_run(const std::string& title, const std::string& text) {
  const std::vector<std::string> examples = examples_in(text);
  EXPECT_FALSE(examples.empty()) << title << " has no examples";
  const TempFolder folder;
  std::filesystem::copy(sample_folder().path(), folder.path(), std::filesystem::copy_options::recursive);
  for (const std::string& example : examples) {
    if (!can_run(example)) continue;
    const ProgramRun run = run_with_free_destination(folder, example);
    // 1 is an answer: files differ.
    EXPECT_TRUE(run.exit_code == 0 || run.exit_code == 1)
        << title << ": " << example << "\nexit code " << run.exit_code << "\n"
        << run.out << run.err;
  }
}

// ---------------------------------------------------------------- tests

TEST(Examples, OfEveryTopicRun) {
  for (const std::string& topic : topic_names()) expect_examples_run("help " + topic, run_ballast({"help", topic}).out);
}

TEST(Examples, OfEveryCommandRun) {
  for (const std::string& command : command_names()) {
    expect_examples_run(command + " --help", run_ballast({command, "--help"}).out);
  }
  expect_examples_run("--help", run_ballast({"--help"}).out);
}

TEST(Examples, AnExampleThatDoesNotWorkIsFound) {
  const TempFolder folder;
  make_sample_files(folder);
  EXPECT_EQ(run_with_free_destination(folder, "ballast inspect no_such_file.npz").exit_code, 2);
  EXPECT_THAT(examples_in("Text\n\nExamples:\n  ballast formats  what is read?\n\nNo example:\n  ballast x\n"),
              ::testing::ElementsAre("ballast formats"));
  EXPECT_THAT(examples_in("  $ ballast help\n  not one\n"), ::testing::ElementsAre("ballast help"));
}

// ---------------------------------------------------------------- help itself

TEST(HelpTopics, AreListedWithTheCommands) {
  const ProgramRun run = run_ballast({"help"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.err, "");
  EXPECT_THAT(run.out, HasSubstr("\n  convert "));
  EXPECT_THAT(run.out, HasSubstr("\n  exit-codes "));
}

TEST(HelpTopics, OfACommandIsItsHelp) {
  for (const std::string& command : command_names()) {
    EXPECT_EQ(run_ballast({"help", command}).out, run_ballast({command, "--help"}).out) << command;
  }
}

TEST(HelpTopics, SuggestWhatWasMeant) {
  EXPECT_EQ(run_ballast({"help", "patern"}).err,
            "ballast: there is no topic or command \"patern\"; did you mean \"patterns\"?\n");
  EXPECT_EQ(run_ballast({"help", "convrt"}).err,
            "ballast: there is no topic or command \"convrt\"; did you mean \"convert\"?\n");
  const ProgramRun far = run_ballast({"help", "xylophone"});
  EXPECT_EQ(far.exit_code, 2);
  EXPECT_THAT(far.err, HasSubstr("topics are: files, patterns"));
}

TEST(HelpTopics, FitATerminalAndNameNoTopicTwice) {
  std::set<std::string> seen;
  for (const std::string& topic : topic_names()) {
    EXPECT_TRUE(seen.insert(topic).second) << topic;
    std::istringstream lines(run_ballast({"help", topic}).out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120U) << topic << ": " << line;
  }
}

TEST(HelpTopics, ShowTheExitCodesThatHelpShows) {
  const std::string row = "  1    files differ, or a file of a known format is damaged\n";
  EXPECT_THAT(run_ballast({"help", "exit-codes"}).out, HasSubstr(row));
  EXPECT_THAT(run_ballast({"--help"}).out, HasSubstr(row));
}

}  // namespace
}  // namespace ballast::testing
