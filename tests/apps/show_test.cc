#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tests/apps/ballast_program.h"
#include "tests/support/json_path.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

template <typename T>
std::string write_tensor(const TempFolder& folder, DType dtype, const Shape& shape, const std::vector<T>& values,
                         const std::string& name = "w") {
  WritePlan plan;
  plan.add_tensor(make_info(name, dtype, shape), std::as_bytes(std::span(values)));
  return write_plan(folder, "one.safetensors", plan);
}

std::vector<float> counting(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
  return values;
}

// What stands below the title.
std::string shown(const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {"show"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const ProgramRun run = run_ballast(all);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return run.out.substr(run.out.find('\n') + 1);
}

TEST(Show, TakesATensorsIdForItsName) {
  const TempFolder folder;
  const std::string path = write_tensor(folder, DType::kF32, {4, 6}, counting(24));
  const std::string id = base_param_id("w").to_bytes_hex();
  EXPECT_EQ(run_ballast({"show", path, id + "[1, :2]"}).out, "w[1, :2]  f32 [2] of [4, 6]\n[6. 7.]\n");
  const std::string reversed = base_param_id("w").to_number_hex();
  EXPECT_EQ(run_ballast({"show", path, reversed}).err, "ballast: " + path + ": no tensor has the id " + reversed +
                                                           "; did you mean " + id + ", the id of \"w\"?\n");
  EXPECT_THAT(run_ballast({"show", path, id.substr(1)}).err, HasSubstr("has 31 digits, not 32"));
  EXPECT_THAT(run_ballast({"show", path, base_param_id("absent").to_bytes_hex()}).err,
              HasSubstr("`ballast inspect --json " + path + "` lists them"));
}

TEST(Show, ASliceWithItsTitle) {
  const TempFolder folder;
  const std::string path = write_tensor(folder, DType::kF32, {4, 6}, counting(24));
  EXPECT_EQ(run_ballast({"show", path, "w[1:3, -2:]"}).out,
            "w[1:3, -2:]  f32 [2, 2] of [4, 6]\n[[10. 11.]\n [16. 17.]]\n");
}

TEST(Show, NumbersAreAlignedAsNumPyDoes) {
  const TempFolder folder;
  EXPECT_EQ(shown({write_tensor<float>(folder, DType::kF32, {3}, {1.5F, -2.25F, 10})}), "[ 1.5  -2.25 10.  ]\n");
  EXPECT_EQ(shown({write_tensor<float>(folder, DType::kF32, {2}, {1e-10F, 1.5F})}), "[1.0e-10 1.5e+00]\n");
  EXPECT_EQ(shown({write_tensor<float>(folder, DType::kF32, {2}, {0.1F, 0.2F})}), "[0.1 0.2]\n");
  EXPECT_EQ(shown({write_tensor<double>(folder, DType::kF64, {1}, {0.1})}), "[0.1]\n");
  EXPECT_EQ(shown({write_tensor<double>(folder, DType::kF64, {1}, {1.0 / 3})}), "[0.33333333]\n");
  EXPECT_EQ(shown({write_tensor<double>(folder, DType::kF64, {2}, {1.0 / 3, 2.0 / 3}), "--precision", "3"}),
            "[0.333 0.667]\n");
  EXPECT_EQ(shown({write_tensor<double>(folder, DType::kF64, {1}, {0.9999}), "--precision", "2"}), "[1.]\n");
  EXPECT_EQ(shown({write_tensor<double>(folder, DType::kF64, {1}, {123456789}), "--precision", "3"}), "[1.235e+08]\n");
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(shown({write_tensor<float>(folder, DType::kF32, {4}, {std::nanf(""), inf, -inf, 1})}),
            "[ nan  inf -inf   1.]\n");
  EXPECT_EQ(shown({write_tensor<float>(folder, DType::kF32, {2}, {0, -0.0F})}), "[ 0. -0.]\n");
}

TEST(Show, IntegersTruthValuesAndComplexNumbers) {
  const TempFolder folder;
  EXPECT_EQ(shown({write_tensor<int64_t>(folder, DType::kI64, {2}, {INT64_MIN, 7})}),
            "[-9223372036854775808                    7]\n");
  EXPECT_EQ(shown({write_tensor<uint8_t>(folder, DType::kBool, {2}, {1, 0})}), "[ True False]\n");
  EXPECT_EQ(shown({write_tensor<float>(folder, DType::kC64, {2}, {1, 2, -0.5F, -3})}), "[ 1. +2.j -0.5-3.j]\n");
}

TEST(Show, SmallFloatsAreAsShortAsTheirTypeAllows) {
  const TempFolder folder;
  EXPECT_EQ(shown({write_tensor<uint16_t>(folder, DType::kF16, {2}, {0x2E66, 0x3C01})}), "[0.1   1.001]\n");
  EXPECT_EQ(shown({write_tensor<uint16_t>(folder, DType::kBF16, {1}, {0x3DCD})}), "[0.1]\n");
  EXPECT_EQ(shown({write_tensor<uint8_t>(folder, DType::kF8E4M3, {2}, {0x31, 0x7E})}), "[  0.56 450.  ]\n");
}

TEST(Show, ScalarsAndEmptyTensors) {
  const TempFolder folder;
  EXPECT_EQ(shown({write_tensor<float>(folder, DType::kF32, {}, {2.5F})}), "2.5\n");
  EXPECT_EQ(shown({write_tensor<float>(folder, DType::kF32, {0, 3}, {})}), "[]\n");
}

TEST(Show, LongTensorsAreShortenedUnlessAllIsAskedFor) {
  const TempFolder folder;
  std::vector<float> values = counting(2000);
  for (float& value : values) value += 1000;
  const std::string path = write_tensor(folder, DType::kF32, {50, 40}, values);
  EXPECT_EQ(shown({path}),
            "[[1000. 1001. 1002. ... 1037. 1038. 1039.]\n"
            " [1040. 1041. 1042. ... 1077. 1078. 1079.]\n"
            " [1080. 1081. 1082. ... 1117. 1118. 1119.]\n"
            " ...\n"
            " [2880. 2881. 2882. ... 2917. 2918. 2919.]\n"
            " [2920. 2921. 2922. ... 2957. 2958. 2959.]\n"
            " [2960. 2961. 2962. ... 2997. 2998. 2999.]]\n");
  const std::string all = shown({path, "--all"});
  EXPECT_THAT(all, HasSubstr("2000."));
  EXPECT_EQ(all.find("..."), std::string::npos);
  EXPECT_EQ(shown({path, "w[:, 0:2]", "--all"}).size(), size_t{50} * std::string(" [1000. 1001.]\n").size() + 1);
}

TEST(Show, BlocksOfThreeAxesAreSetApart) {
  const TempFolder folder;
  const std::string path = write_tensor<uint8_t>(folder, DType::kU8, {2, 2, 1}, {1, 2, 3, 4});
  EXPECT_EQ(shown({path}), "[[[1]\n  [2]]\n\n [[3]\n  [4]]]\n");
}

TEST(Show, LongRowsAreBroken) {
  const TempFolder folder;
  const std::string path = write_tensor(folder, DType::kF32, {40}, counting(40));
  const std::string out = shown({path});
  EXPECT_THAT(out, HasSubstr("\n "));
  for (size_t begin = 0; begin < out.size(); begin = out.find('\n', begin) + 1) {
    EXPECT_LE(out.find('\n', begin) - begin, 80U);
  }
}

TEST(Show, JsonHasTheValuesNested) {
  const TempFolder folder;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const std::string path = write_tensor<float>(folder, DType::kF32, {2, 2}, {1, 1e-7F, nan, -inf});
  const ProgramRun run = run_ballast({"show", path, "w[:, 0:2]", "--json"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(json_at(run.out, "tensors/0"),
            R"({"name":"w","dtype":"f32","shape":[2,2],"tensor_shape":[2,2],"slice":"[:, 0:2]",)"
            R"("values":[[1,1e-07],["nan","-inf"]]})");
  const std::string complex = write_tensor<float>(folder, DType::kC64, {1}, {1, -2});
  EXPECT_EQ(json_at(run_ballast({"show", complex, "--json"}).out, "tensors/0/values"), "[[1,-2]]");
  const std::string empty = write_tensor<float>(folder, DType::kF32, {2, 0}, {});
  EXPECT_EQ(json_at(run_ballast({"show", empty, "--json"}).out, "tensors/0/values"), "[[],[]]");
  const std::string boolean = write_tensor<uint8_t>(folder, DType::kBool, {}, {1});
  EXPECT_EQ(json_at(run_ballast({"show", boolean, "--json"}).out, "tensors/0/values"), "true");
}

TEST(Show, CsvHasOneLinePerRow) {
  const TempFolder folder;
  const std::string path = write_tensor(folder, DType::kF32, {2, 3}, counting(6));
  EXPECT_EQ(run_ballast({"show", path, "--format", "csv"}).out, "0,1,2\n3,4,5\n");
  EXPECT_EQ(run_ballast({"show", path, "w[0]", "--format", "csv"}).out, "0\n1\n2\n");
  EXPECT_EQ(run_ballast({"show", path, "w[0, :2]", "w[1, 0]", "--format", "csv"}).out, "0\n1\n\n3\n");
}

TEST(Show, RawAndNpyAreBytesForAPipe) {
  const TempFolder folder;
  const std::string path = write_tensor<uint8_t>(folder, DType::kU8, {2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(run_ballast({"show", path, "w[:, 1]", "--format", "raw"}).out, "\x02\x05");
  const ProgramRun npy = run_ballast({"show", path, "w[:, 1:]", "--format", "npy"});
  EXPECT_EQ(npy.exit_code, 0);
  const std::string file = folder.write("slice.npy", npy.out);
  EXPECT_EQ(shown({file}), "[[2 3]\n [5 6]]\n");
}

TEST(Show, RawAndNpyHoldOneTensor) {
  const TempFolder folder;
  const ProgramRun run = run_ballast({"show", write_sample(folder), "--only", ".", "--format", "raw"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("hold one tensor, but 4 are selected"));
}

TEST(Show, SeveralNamesAndPatterns) {
  const TempFolder folder;
  const std::string path = write_sample(folder);
  const ProgramRun run = run_ballast({"show", path, "head[0]", "blocks.0.weight", "--only", "blocks.2"});
  EXPECT_EQ(run.exit_code, 0);
  for (const char* title : {"head[0]  i64 [] of [4]\n", "\nblocks.0.weight  f32 [2, 3]\n", "\nblocks.2.weight  f32"}) {
    EXPECT_THAT(run.out, HasSubstr(title));
  }
}

TEST(Show, WithoutANameSaysHowToFindOne) {
  const TempFolder folder;
  const std::string path = write_sample(folder);
  const ProgramRun run = run_ballast({"show", path});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("choose one or more of its 4 tensors"));
  EXPECT_THAT(run.err, HasSubstr("`ballast inspect " + path + "` lists them"));
}

TEST(Show, SuggestsTheNameThatWasMeant) {
  const TempFolder folder;
  const std::string path = write_sample(folder);
  EXPECT_THAT(run_ballast({"show", path, "blocks.0.wieght[0]"}).err, HasSubstr("did you mean \"blocks.0.weight\"?"));
  EXPECT_THAT(run_ballast({"show", path, "0.weight"}).err,
              HasSubstr("did you mean \"blocks.0.weight\" or \"blocks.10.weight\"?"));
  const ProgramRun none = run_ballast({"show", path, "something.else.entirely", "--json"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("lists the names"));
  EXPECT_EQ(json_at(none.out, "error/code"), "\"not_found\"");
  EXPECT_THAT(run_ballast({"show", path, "--only", "nothing"}).err, HasSubstr("--only matches no tensor"));
}

TEST(Show, FaultsOfTheSliceAreTold) {
  const TempFolder folder;
  const std::string path = write_sample(folder);
  EXPECT_THAT(run_ballast({"show", path, "head[4]"}).err, HasSubstr("index 4 is outside axis 0"));
  EXPECT_THAT(run_ballast({"show", path, "head[0,0]"}).err, HasSubstr("has 1 axes, the slice 2"));
  EXPECT_THAT(run_ballast({"show", path, "head[x]"}).err, HasSubstr("character 2"));
  EXPECT_EQ(run_ballast({"show", path, "head[x]"}).exit_code, 2);
}

TEST(Show, ReadsOnlyTheSliceOfAHugeFile) {
  const TempFolder folder;
  const std::string path = write_sparse_file(folder, "huge.safetensors", 64 * 1024);
  EXPECT_EQ(shown({path, "big[-3:]"}), "[0. 0. 0.]\n");
  EXPECT_EQ(shown({path}), "[0. 0. 0. ... 0. 0. 0.]\n");
}

// A .npy file of one array.
std::string write_npy(const TempFolder& folder, const std::string& descr, const std::string& shape,
                      const std::string& payload) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr, shape);
  header.append((64 - (10 + header.size() + 1) % 64) % 64, ' ');
  header += '\n';
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size() & 0xFF);
  file += static_cast<char>(header.size() >> 8);
  return folder.write("array.npy", file + header + payload);
}

std::string int64_bytes(const std::vector<int64_t>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t));
}

TEST(Show, StringsOfNumPy) {
  const TempFolder folder;
  const auto utf32 = [](std::u32string text) {
    text.resize(3, U'\0');
    return std::string(reinterpret_cast<const char*>(text.data()), text.size() * 4);
  };
  const std::string path =
      write_npy(folder, "<U3", "(2, 2)", utf32(U"cat") + utf32(U"\u00e9") + utf32(U"") + utf32(U"a\n\""));
  EXPECT_EQ(run_ballast({"show", path}).out.substr(run_ballast({"show", path}).out.find("  str3")),
            "  str3 [2, 2]\n[[\"cat\"  \"\u00e9\"]\n [\"\"     \"a\\n\"\"]]\n");
  EXPECT_EQ(json_at(run_ballast({"show", path, "--json"}).out, "tensors/0/values"),
            "[[\"cat\",\"\u00e9\"],[\"\",\"a\\n\\\"\"]]");
  EXPECT_EQ(run_ballast({"show", path, "--format", "csv"}).out, "cat,\u00e9\n,\"a\n\"\"\"\n");
  EXPECT_THAT(run_ballast({"inspect", path}).out, HasSubstr("str3"));
  EXPECT_EQ(shown({write_npy(folder, "|S4", "(2,)", std::string("ab\0\0wxyz", 8))}), "[\"ab\"   \"wxyz\"]\n");
}

TEST(Show, DatesAndDurationsOfNumPy) {
  const TempFolder folder;
  const auto dates = [&](const std::string& descr, const std::vector<int64_t>& values) {
    return shown({write_npy(folder, descr, fmt::format("({},)", values.size()), int64_bytes(values))});
  };
  const int64_t nat = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(dates("<M8[D]", {0, -1, 19723, nat}), "[1970-01-01 1969-12-31 2024-01-01 NaT]\n");
  EXPECT_EQ(dates("<M8[s]", {1700000000}), "[2023-11-14T22:13:20]\n");
  EXPECT_EQ(dates("<M8[ms]", {-1}), "[1969-12-31T23:59:59.999]\n");
  EXPECT_EQ(dates("<M8[M]", {-1, 12}), "[1969-12 1971-01]\n");
  EXPECT_EQ(dates("<M8[Y]", {54}), "[2024]\n");
  EXPECT_EQ(dates("<m8[h]", {5, nat}), "[5 h NaT]\n");
  EXPECT_EQ(dates("<M8[D]", {std::numeric_limits<int64_t>::max()}), "[9223372036854775807 D]\n");
  const std::string path = write_npy(folder, "<M8[D]", "(1,)", int64_bytes({1}));
  EXPECT_THAT(run_ballast({"inspect", path}).out, HasSubstr("datetime64[D]"));
}

}  // namespace
}  // namespace ballast::testing
