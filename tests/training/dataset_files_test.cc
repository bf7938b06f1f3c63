#include <filesystem>

#include "ballast/text/load_tokenizer.h"
#include "tests/support/memory_meter.h"
#include "tests/support/mutation.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"
#include "tests/training/dataset_testing.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// ---------------------------------------------------------------- IDX

std::string idx(unsigned char type, const std::vector<uint32_t>& dims, const std::string& elements) {
  std::string out = {'\0', '\0', static_cast<char>(type), static_cast<char>(dims.size())};
  for (const uint32_t dim : dims) append_le(out, byte_swapped(dim));
  return out + elements;
}

struct IdxFiles {
  TempFolder folder;
  std::string images = folder.write("images", idx(8, {2, 2, 2}, std::string("\x00\x33\xFF\x01\x02\x03\x04\x05", 8)));
  std::string labels = folder.write("labels", idx(8, {2}, std::string("\x07\x00", 2)));
};

TEST(IdxDataset, ReadsImagesAndLabelsPlainAndCompressed) {
  const IdxFiles files;
  const std::string packed_images = files.folder.write("images.gz", gzip(read_text_file(files.images)));
  const std::string packed_labels = files.folder.write("labels.gz", gzip(read_text_file(files.labels)));
  ArrayOptions options;
  options.divide_by = 255;
  options.classes = 10;
  for (const auto& [images, labels] :
       {std::pair(files.images, files.labels), std::pair(packed_images, packed_labels)}) {
    const auto set = value_of(open_idx_dataset(images, labels, options));
    EXPECT_EQ(set->layout().feature_shape, Shape({2, 2}));
    EXPECT_EQ(set->layout().classes, 10U);
    const Batch batch = load(*set, {0});
    EXPECT_THAT(list(batch.features()), ElementsAre(0, 0.2F, 1, 1.0F / 255));
    EXPECT_THAT(list(batch.target_ids()), ElementsAre(7));
  }
}

TEST(IdxDataset, WideElementsAreBigEndian) {
  const TempFolder folder;
  const std::string shorts = folder.write("s", idx(0x0B, {2}, std::string("\x01\x02\xFF\xFE", 4)));
  EXPECT_THAT(list(load(*value_of(open_idx_dataset(shorts, "")), {0, 1}).features()), ElementsAre(258, -2));
  const std::string floats = folder.write("f", gzip(idx(0x0D, {1}, std::string("\x3F\x80\x00\x00", 4))));
  EXPECT_THAT(list(load(*value_of(open_idx_dataset(floats, "")), {0}).features()), ElementsAre(1));
  const std::string doubles = folder.write("d", idx(0x0E, {1}, std::string("\x40\x00\x00\x00\x00\x00\x00\x00", 8)));
  EXPECT_THAT(list(load(*value_of(open_idx_dataset(doubles, "")), {0}).features()), ElementsAre(2));
}

TEST(IdxDataset, ErrorsNameTheFileAndTheNumbers) {
  const IdxFiles files;
  const auto error = [&](const std::string& content) {
    return error_of(open_idx_dataset(files.folder.write("bad", content), ""));
  };
  EXPECT_THAT(error("PK\x03\x04"), AllOf(HasSubstr("/bad"), HasSubstr("no IDX file: it begins with 504b0304")));
  EXPECT_THAT(error(idx(7, {2}, "ab")), HasSubstr("unknown element type 0x07"));
  EXPECT_THAT(error(idx(8, {}, "")), HasSubstr("no dimensions"));
  EXPECT_THAT(error(idx(8, {3, 2}, "abcde")), HasSubstr("u8 [3, 2] needs 18 bytes, the file has 17: it is cut short"));
  EXPECT_THAT(error(idx(8, {2}, "abc")), HasSubstr("longer than it says"));
  EXPECT_THAT(error(idx(0x0E, {UINT32_MAX, UINT32_MAX, UINT32_MAX}, "")), HasSubstr("more elements than there can be"));
  EXPECT_THAT(error(gzip(idx(8, {UINT32_MAX}, "abc"))), HasSubstr("compressed bytes cannot hold 4294967303 bytes"));
  EXPECT_THAT(error(gzip(idx(8, {4}, "abc"))), HasSubstr("the trailer speaks of 11"));
  std::string damaged = gzip(idx(8, {4}, "abcd"));
  damaged[damaged.size() - 8] ^= 1;
  EXPECT_THAT(error(damaged), HasSubstr("checksum does not match"));
  EXPECT_THAT(error_of(open_idx_dataset(files.images, files.folder.write("l", idx(8, {3}, "abc")))),
              HasSubstr("array \"labels\" (u8 [3]) has 3 rows"));
}

TEST(IdxDataset, DamagedFilesAreErrorsAndCostNoMemory) {
  const TempFolder folder;
  const std::string plain = idx(8, {3, 4}, std::string(12, 'a'));
  for (const std::string& content : {plain, gzip(plain)}) {
    const auto check = [&](ByteSpan mutant, const std::string& what) {
      const std::string path = folder.write("mutant", as_text(mutant));
      const MemoryMeter meter;
      if (const auto set = open_idx_dataset(path, ""); set) {
        EXPECT_GT((*set)->size(), 0U) << what;
        EXPECT_TRUE(load(**set, {(*set)->size() - 1}).features().size() == (*set)->layout().feature_count()) << what;
      }
      EXPECT_LT(meter.peak(), uint64_t{1} << 20) << what;
    };
    truncations(as_bytes(content), check);
    bit_flips(as_bytes(content), 12, check);
    random_mutations(as_bytes(content), 11, 100, check);
  }
}

// ---------------------------------------------------------------- pictures

// "width height red green blue" in text stands for a picture of one colour.
Result<Picture> read_fake(const std::string& path) {
  std::istringstream text(read_text_file(path));
  Picture picture;
  unsigned red = 0, green = 0, blue = 0;
  if (!(text >> picture.width >> picture.height >> red >> green >> blue))
    return make_error(ErrorCode::kCorrupt, path + ": no picture");
  for (uint64_t i = 0; i < picture.width * picture.height; ++i) {
    for (const unsigned value : {red, green, blue}) picture.pixels.push_back(static_cast<uint8_t>(value));
  }
  return picture;
}

struct PictureFolder {
  TempFolder folder;
  PictureFolder() {
    std::filesystem::create_directory(folder.path("dogs"));
    std::filesystem::create_directory(folder.path("cats"));
    folder.write("cats/2.JPG", "3 5 0 0 255");
    folder.write("cats/10.png", "2 2 255 0 0");
    folder.write("cats/notes.txt", "not a picture");
    folder.write("cats/.hidden.png", "not a picture");
    folder.write("dogs/a.jpeg", "7 3 100 100 100");
    folder.write("README", "not a class");
  }
};

TEST(ImageFolder, FoldersAreClassesInTheOrderOfTheirNames) {
  const PictureFolder pictures;
  ImageFolderOptions options;
  options.size = 2;
  const auto set = value_of(open_image_folder(pictures.folder.path(), read_fake, options));
  EXPECT_EQ(set->size(), 3U);
  EXPECT_EQ(set->layout().feature_shape, Shape({3, 2, 2}));
  EXPECT_THAT(set->class_names(), ElementsAre("cats", "dogs"));
  const Batch batch = load(*set, {0, 1, 2});
  EXPECT_THAT(list(batch.target_ids()), ElementsAre(0, 0, 1));
  EXPECT_THAT(list(batch.features().first(12)), ElementsAre(1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(list(batch.features().subspan(12, 12)), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1));
  EXPECT_FLOAT_EQ(batch.features().back(), 100.0F / 255);
}

TEST(ImageFolder, GreyIsOnePlaneAndTheSplitKeepsTheNames) {
  const PictureFolder pictures;
  ImageFolderOptions options;
  options.size = 1;
  options.channels = 1;
  options.divide_by = 1;
  const auto set = value_of(open_image_folder(pictures.folder.path(), read_fake, options));
  EXPECT_THAT(list(load(*set, {0, 2}).features()), ElementsAre(76, 100));
  EXPECT_EQ(value_of(split_dataset(set, 0.34, 1)).held_out->class_names().size(), 2U);
}

TEST(ImageFolder, ErrorsNameTheFileOrTheFolder) {
  const PictureFolder pictures;
  pictures.folder.write("dogs/b.png", "broken");
  EXPECT_THAT(error_of(open_image_folder(pictures.folder.path(), read_fake)), HasSubstr("dogs/b.png: no picture"));
  std::filesystem::create_directory(pictures.folder.path("birds"));
  EXPECT_THAT(error_of(open_image_folder(pictures.folder.path(), read_fake)),
              HasSubstr("birds: no .png, .jpg or .jpeg file"));
  EXPECT_THAT(error_of(open_image_folder(pictures.folder.path("birds"), read_fake)), HasSubstr("no folders inside"));
  EXPECT_THAT(error_of(open_image_folder(pictures.folder.path("none"), read_fake)), HasSubstr("cannot list"));
  ImageFolderOptions options;
  options.channels = 2;
  EXPECT_THAT(error_of(open_image_folder(pictures.folder.path(), read_fake, options)),
              HasSubstr("channels are 1 or 3"));
}

TEST(ImageFolder, CanBeInterrupted) {
  const PictureFolder pictures;
  const auto stopped =
      open_image_folder(pictures.folder.path(), read_fake, {}, [](const ProgressUpdate&) { return false; });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
}

// ---------------------------------------------------------------- text

TEST(TextDataset, TargetsAreTheTokensThatFollow) {
  const TempFolder folder;
  const std::string path = folder.write("a.txt", "abcdefgh");
  const TextDatasets sets = value_of(open_text_datasets({path}, nullptr, {.context = 3}));
  EXPECT_EQ(sets.vocabulary, 256U);
  EXPECT_EQ(sets.training_tokens, 8U);
  EXPECT_EQ(sets.held_out, nullptr);
  EXPECT_EQ(sets.training->size(), 5U);  // the last begins at e
  const Batch batch = load(*sets.training, {4, 0});
  EXPECT_THAT(list(batch.feature_ids()), ElementsAre('e', 'f', 'g', 'a', 'b', 'c'));
  EXPECT_THAT(list(batch.target_ids()), ElementsAre('f', 'g', 'h', 'b', 'c', 'd'));
}

TEST(TextDataset, TheEndOfEachFileIsHeldOutInWindowsSideBySide) {
  const TempFolder folder;
  const std::string a = folder.write("a.txt", "aaaaabcdef");
  const std::string b = folder.write("b.txt", "xxxxxuvwxy");
  const TextDatasets sets = value_of(open_text_datasets({a, b}, nullptr, {.context = 4, .held_out = 0.5}));
  EXPECT_EQ(sets.training_tokens, 10U);
  EXPECT_EQ(sets.held_out->size(), 2U);
  const Batch held = load(*sets.held_out, {0, 1});
  EXPECT_THAT(list(held.feature_ids()), ElementsAre('b', 'c', 'd', 'e', 'f', 'u', 'v', 'w'));
  EXPECT_EQ(value_of(open_text_windows({a, b}, nullptr, {.context = 4}))->size(), 4U);
}

TEST(TextDataset, ATokenizerAndASeparatorAreUsed) {
  const TempFolder folder;
  const std::string path = folder.write("a.txt", "It is a truth universally acknowledged");
  const Tokenizer tokenizer = value_of(load_tokenizer(test_file_path("gptrs/ministral_yarn/tokenizer.json")));
  const auto tokens = *tokenizer.encode("It is a truth universally acknowledged");
  ASSERT_GT(tokens.size(), 3U);
  const TextDatasets sets = value_of(open_text_datasets({path}, &tokenizer, {.context = tokens.size() - 1}));
  EXPECT_EQ(list(load(*sets.training, {0}).feature_ids()), std::vector<TokenId>(tokens.begin(), tokens.end() - 1));
  EXPECT_EQ(sets.training->layout().classes, sets.vocabulary);
  EXPECT_GE(sets.vocabulary, tokenizer.size());
  const TextDatasets separated = value_of(open_text_datasets({path, path}, nullptr, {.context = 4, .separator = "\n"}));
  EXPECT_EQ(separated.training_tokens, 2 * (38 + 1U));
}

TEST(TextDataset, ErrorsSayWhatIsTooShortOrUnknown) {
  const TempFolder folder;
  const std::string path = folder.write("a.txt", "abcd");
  EXPECT_THAT(error_of(open_text_datasets({path}, nullptr, {.context = 4})),
              HasSubstr("a.txt: the text has 4 tokens, but an example with a context of 4 takes 5"));
  EXPECT_THAT(error_of(open_text_datasets({path}, nullptr, {.context = 1, .held_out = 0.25})),
              HasSubstr("the held-out part has 1 tokens"));
  EXPECT_THAT(error_of(open_text_datasets({path}, nullptr, {.context = 2, .separator = "<eot>"})),
              HasSubstr("the separator \"<eot>\" is not one token"));
  EXPECT_THAT(error_of(open_text_datasets({path}, nullptr, {.context = 2, .held_out = 1})),
              HasSubstr("a part of 1 cannot be held out"));
  EXPECT_THAT(error_of(open_text_datasets({}, nullptr, {})), HasSubstr("no text file"));
  EXPECT_THAT(error_of(open_text_datasets({folder.path("none")}, nullptr, {})), HasSubstr("none"));
}

}  // namespace
}  // namespace ballast::testing
