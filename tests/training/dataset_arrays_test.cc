#include "tests/support/memory_meter.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"
#include "tests/training/dataset_testing.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<const Dataset> make(ArrayColumn features, std::optional<ArrayColumn> targets,
                                    const ArrayOptions& options = {}) {
  return value_of(make_array_dataset("set", std::move(features), std::move(targets), options));
}

ArrayColumn three_pairs() { return column<float>("x", DType::kF32, {3, 2}, {1, 2, 3, 4, 5, 6}); }

TEST(ArrayDataset, ABatchHoldsTheExamplesInTheOrderAskedFor) {
  const auto set = make(three_pairs(), column<int64_t>("y", DType::kI64, {3}, {2, 0, 1}));
  EXPECT_EQ(set->size(), 3U);
  EXPECT_EQ(set->layout().feature_shape, Shape({2}));
  EXPECT_EQ(set->layout().targets, TargetKind::kClasses);
  EXPECT_EQ(set->layout().classes, 3U);
  const Batch batch = load(*set, {2, 0, 2});
  EXPECT_THAT(list(batch.features()), ElementsAre(5, 6, 1, 2, 5, 6));
  EXPECT_THAT(list(batch.target_ids()), ElementsAre(1, 2, 1));
  EXPECT_TRUE(batch.targets().empty());
  EXPECT_TRUE(batch.feature_ids().empty());
}

TEST(ArrayDataset, EveryRealTypeBecomesF32) {
  const std::vector<ArrayColumn> columns = [] {
    std::vector<ArrayColumn> all;
    all.push_back(column<double>("x", DType::kF64, {2}, {3, 200}));
    all.push_back(column<uint8_t>("x", DType::kU8, {2}, {3, 200}));
    all.push_back(column<int16_t>("x", DType::kI16, {2}, {3, 200}));
    all.push_back(column<int64_t>("x", DType::kI64, {2}, {3, 200}));
    all.push_back(column<uint16_t>("x", DType::kF16, {2}, {0x4200, 0x5A40}));
    all.push_back(column<uint16_t>("x", DType::kBF16, {2}, {0x4040, 0x4348}));
    return all;
  }();
  for (const ArrayColumn& features : columns) {
    const auto set = make(features, std::nullopt);
    EXPECT_THAT(list(load(*set, {1, 0}).features()), ElementsAre(200, 3)) << dtype_name(features.dtype);
    EXPECT_EQ(set->layout().targets, TargetKind::kNone);
  }
}

TEST(ArrayDataset, LongRowsAreConvertedWhole) {
  std::vector<double> values(2 * 1500);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  const auto set = make(column<double>("x", DType::kF64, {2, 1500}, values), std::nullopt);
  const Batch batch = load(*set, {1});
  for (size_t i = 0; i < 1500; ++i) ASSERT_EQ(batch.features()[i], static_cast<float>(1500 + i));
}

TEST(ArrayDataset, BytesCanBeBroughtToOneAndTakeAnotherShape) {
  ArrayOptions options;
  options.divide_by = 255;
  options.item_shape = Shape{1, 2, 2};
  const auto set = make(column<uint8_t>("x", DType::kU8, {1, 4}, {0, 51, 255, 1}), std::nullopt, options);
  EXPECT_EQ(set->layout().feature_shape, Shape({1, 2, 2}));
  EXPECT_THAT(list(load(*set, {0}).features()), ElementsAre(0.0F, 0.2F, 1.0F, 1.0F / 255.0F));
}

TEST(ArrayDataset, TargetsAreClassesOneHotRowsOrValues) {
  ArrayOptions options;
  const auto rows = column<float>("y", DType::kF32, {3, 2}, {0, 1, 1, 0, 0, 1});
  const auto as_they_are = make(three_pairs(), rows);
  EXPECT_EQ(as_they_are->layout().targets, TargetKind::kValues);
  EXPECT_THAT(list(load(*as_they_are, {1, 2}).targets()), ElementsAre(1, 0, 0, 1));

  options.target = TargetForm::kOneHot;
  const auto one_hot = make(three_pairs(), rows, options);
  EXPECT_EQ(one_hot->layout().classes, 2U);
  EXPECT_THAT(list(load(*one_hot, {0, 1, 2}).target_ids()), ElementsAre(1, 0, 1));

  options.target = TargetForm::kClasses;
  options.classes = 10;
  const auto floats = make(three_pairs(), column<float>("y", DType::kF32, {3, 1}, {7, 0, 9}), options);
  EXPECT_EQ(floats->layout().classes, 10U);
  EXPECT_THAT(list(load(*floats, {0, 2}).target_ids()), ElementsAre(7, 9));

  const auto numbers = make(three_pairs(), column<float>("y", DType::kF32, {3}, {0.5F, 1.5F, 2.5F}));
  EXPECT_EQ(numbers->layout().target_shape, Shape({1}));
  EXPECT_THAT(list(load(*numbers, {2}).targets()), ElementsAre(2.5F));
}

TEST(ArrayDataset, ErrorsNameTheArrayTheNumbersAndTheCause) {
  const auto error = [](ArrayColumn x, std::optional<ArrayColumn> y, const ArrayOptions& options = {}) {
    return error_of(make_array_dataset("set.npz", std::move(x), std::move(y), options));
  };
  EXPECT_THAT(error(three_pairs(), column<int64_t>("y", DType::kI64, {2}, {0, 1})),
              AllOf(HasSubstr("set.npz: array \"y\" (i64 [2]) has 2 rows"), HasSubstr("\"x\" (f32 [3, 2]) has 3")));
  EXPECT_THAT(error(three_pairs(), column<int64_t>("y", DType::kI64, {3}, {0, -1, 2})),
              HasSubstr("has -1 at element 1, which is no class"));
  EXPECT_THAT(error(three_pairs(), column<int64_t>("y", DType::kI64, {3}, {0, 3, 2}), {.classes = 3, .item_shape = {}}),
              HasSubstr("has 3 at element 1, which is no class: they go from 0 to 2"));
  ArrayOptions one_hot;
  one_hot.target = TargetForm::kOneHot;
  const auto rows = [](std::vector<float> values) { return column<float>("y", DType::kF32, {3, 2}, values); };
  EXPECT_THAT(error(three_pairs(), rows({0, 1, 1, 1, 0, 1}), one_hot),
              HasSubstr("row 1 has 1 in column 1, its second"));
  EXPECT_THAT(error(three_pairs(), rows({0, 1, 0, 0, 0, 1}), one_hot), HasSubstr("row 1 is all zeros"));
  EXPECT_THAT(error(three_pairs(), rows({0, 1, 0, 0.5F, 0, 1}), one_hot), HasSubstr("row 1 has 0.5 in column 1"));
  ArrayOptions classes;
  classes.target = TargetForm::kClasses;
  EXPECT_THAT(error(three_pairs(), rows({0, 1, 1, 0, 0, 1}), classes), HasSubstr("one number per example"));
  ArrayOptions shape;
  shape.item_shape = Shape{3};
  EXPECT_THAT(error(three_pairs(), std::nullopt, shape), HasSubstr("2 elements, which do not take the shape [3]"));
  EXPECT_THAT(error(column<float>("x", DType::kF32, {0, 2}, {}), std::nullopt), HasSubstr("holds no examples"));
  EXPECT_THAT(error(column<float>("x", DType::kF32, {2, 0}, {}), std::nullopt), HasSubstr("without any elements"));
  EXPECT_THAT(error(column<float>("x", DType::kF32, {3}, {1}), std::nullopt), HasSubstr("4 bytes"));
  EXPECT_THAT(error(column<float>("x", DType::kC64, {1}, {1, 2}), std::nullopt), HasSubstr("cannot become f32"));
  EXPECT_THAT(error(column<float>("x", DType::kF32, {}, {1}), std::nullopt), HasSubstr("no first dimension"));
}

TEST(ArrayDataset, RefusesExamplesAndRoomThatAreNotThere) {
  const auto set = make(three_pairs(), column<int64_t>("y", DType::kI64, {3}, {2, 0, 1}));
  Batch batch(set->layout(), 2);
  EXPECT_THAT(error_of(batch.load(*set, std::vector<uint64_t>{0, 3})),
              HasSubstr("example 3 was asked for, but there are 3"));
  EXPECT_THAT(error_of(batch.load(*set, std::vector<uint64_t>{0, 1, 2})), HasSubstr("3 examples in room for 2"));
  std::vector<float> room(3);
  std::vector<uint32_t> ids(1);
  EXPECT_THAT(error_of(set->fill(std::vector<uint64_t>{0}, {.features = room, .target_ids = ids})),
              HasSubstr("room for 3 features was given where the batch has 2"));
}

TEST(ArrayDataset, FillingABatchAllocatesNothing) {
  const auto set = make(column<double>("x", DType::kF64, {3, 2}, {1, 2, 3, 4, 5, 6}),
                        column<int64_t>("y", DType::kI64, {3}, {2, 0, 1}));
  const auto split = value_of(split_dataset(set, 0.34, 1));
  Batch batch(set->layout(), 2);
  const std::vector<uint64_t> examples = {0, 1};
  const MemoryMeter meter;
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(batch.load(*set, examples));
    ASSERT_TRUE(batch.load(*split.training, examples));
  }
  EXPECT_EQ(meter.peak(), 0U);
}

TEST(SplitDataset, ThePartsShareNothingAndMissNothing) {
  std::vector<float> values(200);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const auto set = make(column<float>("x", DType::kF32, {200}, values), std::nullopt);
  for (const std::optional<uint64_t> seed : {std::optional<uint64_t>(), std::optional<uint64_t>(7)}) {
    const SplitDatasets split = value_of(split_dataset(set, 0.25, seed));
    EXPECT_EQ(split.held_out->size(), 50U);
    std::vector<float> seen;
    for (const auto& part : {split.training, split.held_out}) {
      std::vector<uint64_t> all(part->size());
      for (uint64_t i = 0; i < all.size(); ++i) all[i] = i;
      const auto loaded = list(load(*part, all).features());
      if (!seed && part == split.held_out) {
        EXPECT_EQ(loaded.front(), 150);
      }
      seen.insert(seen.end(), loaded.begin(), loaded.end());
    }
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(seen, values);
  }
  EXPECT_THAT(error_of(split_dataset(set, 1, {})), HasSubstr("must be above 0 and below 1"));
  EXPECT_THAT(error_of(split_dataset(set, 0.001, {})), HasSubstr("of 200 examples, 0 would be held out"));
}

// ---------------------------------------------------------------- NPZ

TEST(NpzDataset, TheRecordedDataOfNetclIsRead) {
  const auto set = value_of(open_npz_dataset(test_file_path("netcl/train_mlp_data.npz")));
  EXPECT_EQ(set->layout().feature_shape, Shape({8}));
  EXPECT_EQ(set->layout().targets, TargetKind::kValues);
  NpzDatasetOptions options;
  options.array.target = TargetForm::kOneHot;
  const auto classes = value_of(open_npz_dataset(test_file_path("netcl/train_mlp_data.npz"), options));
  EXPECT_EQ(classes->layout().targets, TargetKind::kClasses);
  EXPECT_EQ(classes->size(), set->size());
  const Batch a = load(*set, {1});
  const Batch b = load(*classes, {1});
  EXPECT_EQ(list(a.features()), list(b.features()));
  EXPECT_EQ(a.targets()[b.target_ids()[0]], 1);
}

TEST(NpzDataset, AMissingArrayIsNamedWithWhatThereIs) {
  NpzDatasetOptions options;
  options.features = "X";
  const std::string text = error_of(open_npz_dataset(test_file_path("netcl/train_mlp_data.npz"), options));
  EXPECT_THAT(text, AllOf(HasSubstr("has no array \"X\" (did you mean \"x\"?)"), HasSubstr("it holds x, y, r")));
  EXPECT_THAT(error_of(open_npz_dataset("/nowhere.npz")), HasSubstr("/nowhere.npz"));
}

}  // namespace
}  // namespace ballast::testing
