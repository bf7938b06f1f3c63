// CSV and JSON lines: what they mean, and what is wrong with those that do not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/base/counter_random.h"
#include "ballast/training/data/table_reader.h"
#include "ballast/training/dataset.h"
#include "tests/support/memory_meter.h"
#include "tests/support/temp_folder.h"

namespace ballast {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempFolder;

using TableSet = Result<std::shared_ptr<const Dataset>>;

TableSet csv_set(const TempFolder& folder, const std::string& text, TableOptions options = {},
                 const CsvOptions& csv = {}) {
  BALLAST_TRY(const auto table, open_csv(folder.write("t.csv", text), csv));
  options.last_is_target = true;
  return open_table_dataset(*table, options);
}

TableSet jsonl_set(const TempFolder& folder, const std::string& text, const TableOptions& options) {
  BALLAST_TRY(const auto table, open_jsonl(folder.write("t.jsonl", text)));
  return open_table_dataset(*table, options);
}

struct AllRows {
  std::vector<float> x;
  std::vector<uint32_t> classes;
  std::vector<float> values;
};
AllRows rows_of(const Dataset& set) {
  AllRows rows;
  std::vector<uint64_t> all(set.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  rows.x.resize(all.size() * set.layout().feature_count());
  const bool classes = set.layout().targets == TargetKind::kClasses;
  if (classes) rows.classes.resize(all.size());
  else rows.values.resize(all.size());
  const Status filled = set.fill(all, {rows.x, {}, rows.values, rows.classes});
  EXPECT_TRUE(filled) << (filled ? "" : filled.error().message);
  return rows;
}

std::vector<std::string> class_names_of(const Dataset& set) {
  return {set.class_names().begin(), set.class_names().end()};
}

std::string error_in(const TableSet& set) { return set ? "no error" : set.error().message; }

TEST(CsvDataset, TextLabelsAreClassesInTheOrderOfTheirNames) {
  const TempFolder folder;
  const auto set = csv_set(folder, "a,b,kind\n1,2,pear\n3,4.5,apple\n-5e-1, 6 ,pear\n");
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_THAT(class_names_of(**set), ElementsAre("apple", "pear"));
  const AllRows rows = rows_of(**set);
  EXPECT_THAT(rows.x, ElementsAre(1, 2, 3, 4.5, -0.5, 6));
  EXPECT_THAT(rows.classes, ElementsAre(1, 0, 1));
  EXPECT_EQ((*set)->layout().classes, 2U);
}

TEST(CsvDataset, QuotesLineEndsAndTheByteOrderMarkAreThoseOfOtherPrograms) {
  const TempFolder folder;
  const auto set = csv_set(
      folder, "\xEF\xBB\xBF\"a\",\"the \"\"kind\"\"\"\r\n\"1\",\"x, y\"\r\n\r\n2,\"line\nbreak\"\r\n3,\"x, y\"");
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_THAT(class_names_of(**set), ElementsAre("line\nbreak", "x, y"));
  EXPECT_THAT(rows_of(**set).classes, ElementsAre(1, 0, 1));
}

TEST(CsvDataset, NumbersAreClassesOrValuesAsTheyLookOrAsToldTo) {
  const TempFolder folder;
  const auto classes = csv_set(folder, "a,y\n1,0\n2,2\n");
  ASSERT_TRUE(classes) << classes.error().message;
  EXPECT_EQ((*classes)->layout().classes, 3U);
  const auto prices = csv_set(folder, "a,y\n1,120000\n2,85000\n");
  ASSERT_TRUE(prices);
  EXPECT_THAT(rows_of(**prices).values, ElementsAre(120000, 85000));
  const auto told = csv_set(folder, "a,y\n1,0\n2,2\n", {.form = TargetForm::kValues});
  ASSERT_TRUE(told);
  EXPECT_THAT(rows_of(**told).values, ElementsAre(0, 2));
}

TEST(CsvDataset, ColumnsAreChosenByNameOrByNumber) {
  const TempFolder folder;
  const auto set = csv_set(folder, "id,a,y,b\nx7,1,10.5,2\nx8,3,11.5,4\n", {.features = {"b", "a"}, .target = "y"});
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_THAT(rows_of(**set).x, ElementsAre(2, 1, 4, 3));
  const auto bare = csv_set(folder, "1;2;0.5\n3;4;1.5\n", {.features = {"1"}}, {.delimiter = ';', .header = false});
  ASSERT_TRUE(bare) << bare.error().message;
  EXPECT_THAT(rows_of(**bare).x, ElementsAre(2, 4));
}

TEST(CsvDataset, ErrorsNameTheFileTheLineAndTheColumn) {
  const TempFolder folder;
  const auto error = [&](const std::string& text, const TableOptions& options = {}) {
    return error_in(csv_set(folder, text, options));
  };
  EXPECT_THAT(error(""), HasSubstr("t.csv: the file holds no rows"));
  EXPECT_THAT(error("a,y\n"), HasSubstr("no rows of data"));
  EXPECT_THAT(error("a,b,y\n1,2,x\n1,x\n"), HasSubstr("t.csv: line 3 has 2 fields, but the first line has 3"));
  EXPECT_THAT(error("a,y\n1,x\nNaN,x\n"),
              AllOf(HasSubstr("line 3 column \"a\" is \"NaN\""), HasSubstr("no finite number")));
  EXPECT_THAT(error("a,y\ninf,x\n"), HasSubstr("no finite number"));
  EXPECT_THAT(error("a,y\n1e999,x\n"), HasSubstr("no finite number"));
  EXPECT_THAT(error("a,y\n1e300,x\n"), HasSubstr("too large for f32"));
  EXPECT_THAT(error("a,y\n,x\n"), HasSubstr("line 2 column \"a\" is missing"));
  EXPECT_THAT(error("a,y\n1,\n"), HasSubstr("column \"y\" is missing"));
  EXPECT_THAT(error("a,y\n1,x\n2,3\n"), HasSubstr("a number, but the rows before hold text"));
  EXPECT_THAT(error("a,y\n1,3\n2,x\n"), HasSubstr("but the rows before hold numbers"));
  EXPECT_THAT(error("a,y\n1,\"x\n2,y\n"), HasSubstr("line 2 begins a quoted field that never ends"));
  EXPECT_THAT(error("a,y\n1,\"x\"z\n"), HasSubstr("text behind a closing quote"));
  EXPECT_THAT(error("a,y\n1,\xFF\n"), HasSubstr("line 2 field 2 is not UTF-8"));
  EXPECT_THAT(error("a,a\n1,2\n"), HasSubstr("two columns are called \"a\""));
  EXPECT_THAT(error("a;y\n1;2\n"), HasSubstr("is the delimiter right?"));
  EXPECT_THAT(error("a,y\n1,2\n", {.features = {"aa"}}), HasSubstr("there is no column \"aa\""));
  EXPECT_THAT(error("a,y\n1,2\n", {.features = {"y"}}), HasSubstr("both a feature and the target"));
  EXPECT_THAT(error("a,y\n1,x\n", {.class_names = {"p", "q"}}),
              HasSubstr("a class that the training data does not have"));
  EXPECT_THAT(error_in(csv_set(folder, "a,y\n1," + std::string(2000, 'x') + "\n")), HasSubstr("is no label"));
}

TEST(CsvDataset, AFieldWithoutAnEndTakesBoundedMemory) {
  const TempFolder folder;
  const std::string path = folder.write("t.csv", "a,y\n1,\"" + std::string(size_t{40} << 20, 'x'));
  const testing::MemoryMeter meter;
  const auto table = open_csv(path);
  ASSERT_TRUE(table);
  const auto set = open_table_dataset(**table, {.last_is_target = true});
  EXPECT_THAT(error_in(set), HasSubstr("more than 16 MiB"));
  EXPECT_LT(meter.peak(), uint64_t{64} << 20);
}

TEST(CsvDataset, DamagedTextNeverDoesMoreThanFail) {
  const TempFolder folder;
  const std::string sound = "a,\"b\",kind\r\n1,2,\"pear\"\r\n3,4.5,apple\r\n";
  for (uint64_t i = 0; i < 400; ++i) {
    std::string text = sound;
    for (int k = 0; k < 3; ++k)
      text[counter_random(i, 2 * k) % text.size()] = static_cast<char>(counter_random(i, 2 * k + 1));
    const auto set = csv_set(folder, text);
    if (set) continue;
    EXPECT_THAT(set.error().message, HasSubstr("t.csv")) << text;
  }
}

TEST(JsonlDataset, TakesNumbersListsTruthAndTextLabels) {
  const TempFolder folder;
  const auto set = jsonl_set(folder,
                             "{\"x\": [1, 2.5], \"on\": true, \"label\": \"no\"}\n\n"
                             "{\"label\": \"yes\", \"on\": false, \"x\": [3, 4], \"more\": {\"a\": 1}}\r\n",
                             {.target = "label"});
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_THAT(rows_of(**set).x, ElementsAre(1, 2.5, 1, 3, 4, 0));
  EXPECT_THAT(class_names_of(**set), ElementsAre("no", "yes"));
}

// As mistakes in a CSV file are: the data does not fit what was asked for, which is no damage.
TEST(JsonlDataset, ALineThatIsNoJsonIsAnInvalidArgument) {
  const TempFolder folder;
  const TableOptions options{.target = "y"};
  const auto first = jsonl_set(folder, "{\"x\": 1,\n", options);
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code, ErrorCode::kInvalidArgument) << first.error().message;
  const auto later = jsonl_set(folder, "{\"x\": 1, \"y\": 2}\n{\"x\": 1e999, \"y\": 2}\n", options);
  ASSERT_FALSE(later);
  EXPECT_EQ(later.error().code, ErrorCode::kInvalidArgument) << later.error().message;
  EXPECT_THAT(later.error().message, HasSubstr("1e999"));
}

TEST(JsonlDataset, ErrorsNameTheFileAndTheLine) {
  const TempFolder folder;
  const auto error = [&](const std::string& text) { return error_in(jsonl_set(folder, text, {.target = "y"})); };
  EXPECT_THAT(error(""), HasSubstr("t.jsonl: the file holds no rows"));
  EXPECT_THAT(error("{\"x\": 1, \"y\": 2}\n{\"x\": 1,\n"), HasSubstr("t.jsonl: line 2"));
  EXPECT_THAT(error("{\"x\": 1, \"y\": 2}\n[1]\n"), HasSubstr("t.jsonl: line 2"));
  EXPECT_THAT(error("{\"x\": 1, \"y\": 2}\n{\"x\": 1}\n"), HasSubstr("line 2 column \"y\" is missing"));
  EXPECT_THAT(error("{\"x\": [1, 2], \"y\": 2}\n{\"x\": [1], \"y\": 2}\n"),
              HasSubstr("line 2 has 1 features, but the first row has 2"));
  EXPECT_THAT(error("{\"x\": NaN, \"y\": 2}\n"), HasSubstr("t.jsonl: line 1"));
  EXPECT_THAT(error("{\"x\": 1e999, \"y\": 2}\n"), HasSubstr("t.jsonl: line 1"));
  EXPECT_THAT(error("{\"x\": \"a\", \"y\": 2}\n"), HasSubstr("no finite number"));
  EXPECT_THAT(error("{\"x\": {\"a\": 1}, \"y\": 2}\n"), HasSubstr("objects inside a row"));
  EXPECT_THAT(error("{\"x\": 1, \"x\": 1, \"y\": 2}\n"), HasSubstr("twice"));
  EXPECT_THAT(error("{\"x\": 1, \"y\": \"\xFF\"}\n"), HasSubstr("line 1 is not UTF-8"));
  EXPECT_THAT(error_in(jsonl_set(folder, "{\"x\": 1, \"y\": 2}\n", {})),
              HasSubstr("which column is the target? [data] y names it; there are: x, y"));
}

TEST(TableTexts, AreTheTextsOfOneColumn) {
  const TempFolder folder;
  const auto table =
      open_jsonl(folder.write("t.jsonl", "{\"text\": \"one\\ntwo\", \"n\": 1}\n{\"text\": \"three\", \"n\": 2}\n"));
  ASSERT_TRUE(table);
  std::vector<std::string> texts;
  const Status read = read_table_texts(**table, "text", [&](const std::string& text) -> Status {
    texts.push_back(text);
    return {};
  });
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_THAT(texts, ElementsAre("one\ntwo", "three"));
  const auto numbers = open_jsonl(folder.path("t.jsonl"));
  const Status refused = read_table_texts(**numbers, "n", [](const std::string&) -> Status { return {}; });
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("line 1 has no text in column \"n\""));
}

}  // namespace
}  // namespace ballast
