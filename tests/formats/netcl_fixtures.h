// Files that netcl wrote, in memory, with what is in them.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "ballast/base/json.h"
#include "ballast/formats/netcl/netcl.h"
#include "tests/formats/numpy_expectations.h"
#include "tests/support/memory_siblings.h"

namespace ballast::testing {

inline constexpr const char* kOneRelu =
    R"({"type": "Sequential", "config": [{"type": "ReLU", "args": {}}], "version": 2})";

// Opens `name` of the siblings, by content.
inline Result<Archive> open_named(MemorySiblings& siblings, const std::string& name,
                                  const std::string& companion = "") {
  OpenRequest request;
  BALLAST_TRY(request.source, siblings.open_sibling(name));
  request.file_name = name;
  request.companion = companion;
  request.siblings = &siblings;
  return open_archive(request);
}

inline Archive open_named_or_die(MemorySiblings& siblings, const std::string& name, const std::string& companion = "") {
  auto archive = open_named(siblings, name, companion);
  EXPECT_TRUE(archive.has_value()) << archive.error().message;
  return archive ? *std::move(archive) : Archive({}, {}, {});
}

// Everything the plan writes, under the names it gives.
inline Result<MemorySiblings> write_files(const FormatDriver& driver, const Archive& archive,
                                          const Description& description, const std::string& file_name) {
  WriteOptions options;
  options.keep_order = true;
  BALLAST_TRY(const auto planned, driver.plan_write({description, options, file_name}));
  ArchiveFeed feed(archive, description);
  MemorySiblings written;
  for (size_t i = 0; i < planned->files().size(); ++i) {
    MemorySink sink;
    BALLAST_CHECK(planned->emit(i, sink, feed));
    const PlannedFile& file = planned->files()[i];
    EXPECT_EQ(file.size.value_or(sink.position()), sink.position());
    written.files[file.file_name.empty() ? file_name : file.file_name] = sink.take();
  }
  return written;
}

inline MemorySiblings write_files_or_die(const FormatDriver& driver, const Archive& archive,
                                         const Description& description, const std::string& file_name) {
  auto written = write_files(driver, archive, description, file_name);
  EXPECT_TRUE(written.has_value()) << written.error().message;
  return written ? *std::move(written) : MemorySiblings();
}

struct NetclFiles {
  std::string name;
  std::vector<std::string> files;
  std::vector<ExpectedTensor> tensors;  // without the metadata member
  std::optional<std::string> meta_json;
};

inline Result<NetclFiles> parse_netcl_files(std::string_view text, const std::string& name) {
  NetclFiles fixture;
  fixture.name = name;
  JsonReader json(text, name);
  BALLAST_CHECK(json.enter_object());
  std::string key;
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) break;
    if (key == "tensors") {
      BALLAST_TRY(fixture.tensors, read_expected_tensors(json));
    } else if (key == "meta_json") {
      BALLAST_TRY(fixture.meta_json, json.read_string());
    } else if (key == "files") {
      BALLAST_CHECK(json.enter_object());
      for (;;) {
        BALLAST_TRY(const bool another, json.next_key(key));
        if (!another) break;
        fixture.files.push_back(key);
        BALLAST_CHECK(json.skip_value());
      }
    } else {
      BALLAST_CHECK(json.skip_value());
    }
  }
  std::erase_if(fixture.tensors, [](const ExpectedTensor& tensor) { return tensor.name == kNetclMetaName; });
  return fixture;
}

inline constexpr std::string_view kExpectEnding = ".expect.json";

inline MemorySiblings files_of(const NetclFiles& fixture) {
  MemorySiblings siblings;
  for (const std::string& file : fixture.files) siblings.files[file] = read_test_data("netcl/" + file);
  return siblings;
}

inline NetclFiles fixture_named(const std::string& name) {
  const ByteVector text = read_test_data("netcl/" + name + std::string(kExpectEnding));
  return parse_netcl_files(as_text(text), name).value();
}

}  // namespace ballast::testing
