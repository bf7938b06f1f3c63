// The program under test, and small files to try it on.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "ballast/archive/write.h"
#include "tests/support/places.h"
#include "tests/support/run_program.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast::testing {

inline ProgramRun run_ballast(std::vector<std::string> arguments, const ProgramSetting& setting = {}) {
  arguments.insert(arguments.begin(), program_path());
  return run_program(arguments, setting);
}

// Names in the lines "  name  what it is" below a heading of `ballast help`.
inline std::vector<std::string> names_in_help(const std::string& heading) {
  const std::string text = run_ballast({"help"}).out;
  const size_t begin = text.find(heading);
  EXPECT_NE(begin, std::string::npos) << heading;
  std::istringstream lines(begin == std::string::npos ? "" : text.substr(begin));
  std::vector<std::string> names;
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line) && line.starts_with("  ")) names.push_back(line.substr(2, line.find(' ', 2) - 2));
  EXPECT_GE(names.size(), 5U) << heading;
  return names;
}
inline std::vector<std::string> command_names() { return names_in_help("Commands"); }
inline std::vector<std::string> topic_names() { return names_in_help("Topics"); }

// A tokenizer whose tokens gpt.rs has written too.
inline std::string gptrs_tokenizer_path() { return test_file_path("tokenizers/gptrs_flat.json"); }

// A plan of tensors with counting bytes: blocks.0.weight, blocks.2.weight, blocks.10.weight, head.
inline WritePlan sample_plan() {
  WritePlan plan;
  plan.description.metadata = {{"format", std::string("pt")}, {"note", std::string("for tests")}};
  const auto add = [&](std::string name, DType dtype, Shape shape, unsigned first) {
    TensorInfo info = make_info(std::move(name), dtype, std::move(shape));
    plan.add_tensor(info,
                    [bytes = counting_bytes(info.byte_size, first)](ByteSink& sink) { return sink.write(bytes); });
  };
  add("blocks.0.weight", DType::kF32, {2, 3}, 1);
  add("blocks.2.weight", DType::kF32, {2, 3}, 2);
  add("blocks.10.weight", DType::kF32, {2, 3}, 3);
  add("head", DType::kI64, {4}, 4);
  return plan;
}

inline std::string write_plan(const TempFolder& folder, const std::string& name, const WritePlan& plan,
                              std::string_view format = "safetensors") {
  const std::string path = folder.path(name);
  WriteSettings settings;
  settings.commit.overwrite = true;
  const auto report = write_archive(path, *find_format(format), plan, settings);
  EXPECT_TRUE(report) << (report ? "" : report.error().message);
  return path;
}

inline std::string write_sample(const TempFolder& folder, const std::string& name = "sample.safetensors") {
  return write_plan(folder, name, sample_plan());
}

// A safetensors file of one-dimensional f32 tensors.
inline std::string write_tensors(const TempFolder& folder, const std::string& name,
                                 const std::vector<std::pair<std::string, std::vector<float>>>& tensors,
                                 std::vector<MetaEntry> metadata = {}) {
  WritePlan plan;
  plan.description.metadata = std::move(metadata);
  for (const auto& [tensor, values] : tensors) {
    plan.add_tensor(make_info(tensor, DType::kF32, {values.size()}), std::as_bytes(std::span(values)));
  }
  return write_plan(folder, name, plan);
}

// A safetensors file of one f32 tensor of this many MiB, all zeros, that takes no room on the disk.
inline std::string write_sparse_file(const TempFolder& folder, const std::string& name, uint64_t mebibytes) {
  const uint64_t bytes = mebibytes << 20;
  std::string header =
      fmt::format(R"({{"big":{{"dtype":"F32","shape":[{}],"data_offsets":[0,{}]}}}})", bytes / 4, bytes);
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string head;
  append_le<uint64_t>(head, header.size());
  const std::string path = folder.write(name, head + header);
  std::filesystem::resize_file(path, head.size() + header.size() + bytes);
  return path;
}

}  // namespace ballast::testing
