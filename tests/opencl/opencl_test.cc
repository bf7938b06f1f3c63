// A real OpenCL device (PoCL makes the CPU one): `make test-opencl` says that there must be one.
#include "ballast/backends/opencl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ballast/backends/opencl/device.h"
#include "ballast/backends/opencl/program_cache.h"
#include "ballast/device/host_values.h"
#include "tests/support/ops_testing.h"
#include "tests/support/random_blocks.h"
#include "tests/support/recorded_models.h"
#include "tests/support/same_bits.h"
#include "tests/support/temp_folder.h"
#include "tests/support/whole_past.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

class OpenCl : public ::testing::Test {
 protected:
  void SetUp() override {
    const bool is_wanted = std::getenv("BALLAST_TEST_OPENCL") != nullptr;
    const auto found = kOpenClBackend.find_devices();
    if (!found && is_wanted) FAIL() << found.error().message;
    if (!found) GTEST_SKIP() << found.error().message;
    if (!is_wanted) GTEST_SKIP() << "kernels may take minutes to compile: `make test-opencl` runs this";
  }
};

// ---------------------------------------------------------------- without a device
TEST(OpenClDriver, SaysWhatToInstallWhereThereIsNoLibrary) {
  const auto driver = opencl::Driver::open("libabacus.so.1");
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(driver.error().message, HasSubstr("install one"));
}

TEST(OpenClDriver, RefusesALibraryThatIsNotOpenCl) {
  const auto driver = opencl::Driver::open("libm.so.6");
  ASSERT_FALSE(driver);
  EXPECT_THAT(driver.error().message, HasSubstr("libm.so.6 has no clGetPlatformIDs"));
}

TEST(OpenClDriver, TellsLackOfMemoryFromALostDevice) {
  EXPECT_EQ(opencl::Driver::error(opencl::kDriverNoMemory, "computing").code, ErrorCode::kOutOfMemory);
  const Error lost = opencl::Driver::error(opencl::kDriverOutOfResources, "computing");
  EXPECT_EQ(lost.code, ErrorCode::kIo);
  EXPECT_THAT(lost.message, HasSubstr("CL_OUT_OF_RESOURCES: the device ran out of resources or is lost"));
}

TEST(OpenClPrograms, AreKeptInFilesThatTellDamage) {
  const TempFolder folder;
  const opencl::ProgramCache cache(folder.path());
  const std::vector<std::byte> binary(1000, std::byte{7});
  EXPECT_TRUE(cache.read("a").empty());
  cache.write("a", binary);
  EXPECT_EQ(cache.read("a"), binary);
  EXPECT_TRUE(cache.read("b").empty());
  const std::string path = folder.path() + "/a.opencl";
  std::FILE* const file = std::fopen(path.c_str(), "r+b");
  ASSERT_NE(file, nullptr);
  std::fseek(file, 500, SEEK_SET);
  std::fputc(8, file);
  std::fclose(file);
  EXPECT_TRUE(cache.read("a").empty());
}

TEST(OpenClPrograms, HaveKeysThatTellDriversSourcesAndOptionsApart) {
  const std::string key = opencl::program_key({"platform", "device", "1"}, "source", "-O");
  EXPECT_EQ(key, opencl::program_key({"platform", "device", "1"}, "source", "-O"));
  EXPECT_NE(key, opencl::program_key({"platform", "device", "2"}, "source", "-O"));
  EXPECT_NE(key, opencl::program_key({"platform", "device1", ""}, "source", "-O"));
  EXPECT_NE(key, opencl::program_key({"platform", "device", "1"}, "source ", "-O"));
  EXPECT_NE(key, opencl::program_key({"platform", "device", "1"}, "source", ""));
}

// ---------------------------------------------------------------- devices
TEST_F(OpenCl, FindsDevicesByNumberAndByName) {
  const auto opened = kOpenClBackend.open_device();
  ASSERT_TRUE(opened) << opened.error().message;
  const auto* const device = opencl::as_opencl(opened->get());
  ASSERT_NE(device, nullptr);
  const std::string number = "opencl:" + std::to_string(device->info().index);
  const auto by_number = find_backend(number);
  ASSERT_NE(by_number, nullptr);
  EXPECT_EQ(find_backend("opencl:" + device->info().name), by_number);
  EXPECT_EQ(by_number->open_device()->get(), opened->get());
  const auto wrong = choose_backend("opencl:abacus");
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("there is no device \"abacus\"; there are: opencl:0 ("));
}

TEST_F(OpenCl, RefusesMoreMemoryThanTheDeviceHas) {
  const auto device = kOpenClBackend.open_device();
  ASSERT_TRUE(device);
  const auto memory = (*device)->allocate((*device)->limits().memory + 1);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, ErrorCode::kOutOfMemory);
  EXPECT_THAT(memory.error().message, HasSubstr("use a smaller model"));
}

TEST_F(OpenCl, CopiesAndFillsInOrder) {
  const auto device = kOpenClBackend.open_device();
  ASSERT_TRUE(device);
  const auto queue = (*device)->open_queue();
  const auto one = (*device)->allocate(100), other = (*device)->allocate(100);
  ASSERT_TRUE(queue && one && other);
  (*queue)->fill({one->get()}, 100, std::byte{1});
  {
    const std::vector<std::byte> passing(10, std::byte{2});
    (*queue)->copy_in({one->get(), 20}, passing);
  }
  (*queue)->copy({one->get(), 10}, {other->get(), 50}, 30);
  std::vector<std::byte> out(30);
  (*queue)->copy_out({other->get(), 50}, out);
  const Status done = (*queue)->finish();
  ASSERT_TRUE(done) << done.error().message;
  for (size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(out[i], i >= 10 && i < 20 ? std::byte{2} : std::byte{1}) << i;
  }
}

TEST_F(OpenCl, ShowsTheCompilersLogAndGoesOn) {
  Lab lab(kOpenClBackend);
  // Without a type of weights this program is none.
  const Status failed = opencl::launch(lab.context, {"products", "product_row"}, {.x = 1});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(failed.error().message, HasSubstr("compiling the kernels \"products\""));
  EXPECT_THAT(failed.error().message, HasSubstr("BALLAST_WEIGHT_TYPE"));
  EXPECT_FALSE(opencl::launch(lab.context, {"rows", "abacus"}, {.x = 1}));
  const auto y = ops::relu(lab.context, lab.tensor({-1, 2}, {2}));
  ASSERT_TRUE(y) << y.error().message;
  EXPECT_EQ(values_of(*y), (std::vector<double>{0, 2}));
}

TEST_F(OpenCl, TellsWhatTheHostComputedInItsPlace) {
  Lab lab(kOpenClBackend);
  const Tensor x = lab.tensor({1, -2, 3, 4}, {1, 1, 1, 4});
  ASSERT_TRUE(ops::upsample2d(lab.context, x, 2, ops::Upsampling::kNearest));
  EXPECT_THAT(lab.workspace.queue().device().fallbacks(), ::testing::Contains("upsample2d"));
}

// ---------------------------------------------------------------- bits
// A batch is computed by another kernel than a row, and a row's place in it differs.
TEST_F(OpenCl, GivesARowTheSameBitsAloneAndAmongOthers) {
  constexpr uint64_t kRows = 11, kIn = 512, kOut = 33;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_1,
                            DType::kQ5_0, DType::kQ4K, DType::kQ6K}) {
    Lab lab(kOpenClBackend);
    std::vector<MemoryParam> params;
    params.push_back(make_param("weight", dtype == DType::kF16 || dtype == DType::kBF16 ? dtype : DType::kF32,
                                {kOut, kIn}, random_values(1, kOut * kIn)));
    if (dtype != params[0].info.dtype) {
      params[0].info.dtype = dtype;
      params[0].payload = random_blocks(dtype, kOut * kIn, 3);
      params[0].info.byte_size = params[0].payload.size();
    }
    const auto store = make_store(std::move(params));
    const Param weight = param_of(*store, "weight");
    const ops::LinearOptions options{.layout = WeightLayout::kOutIn};
    const std::vector<double> values = random_values(2, kRows * kIn);
    const auto all = ops::linear(lab.context, lab.tensor(values, {kRows, kIn}), weight, options);
    ASSERT_TRUE(all) << all.error().message;
    for (uint64_t row = 0; row < kRows; ++row) {
      const std::vector<double> alone(values.begin() + static_cast<std::ptrdiff_t>(row * kIn),
                                      values.begin() + static_cast<std::ptrdiff_t>((row + 1) * kIn));
      const auto y = ops::linear(lab.context, lab.tensor(alone, {1, kIn}), weight, options);
      const auto among = ops::slice_along_axis(lab.context, *all, 0, row, 1);
      ASSERT_TRUE(y && among);
      EXPECT_TRUE(same_bits(*y, *among)) << dtype_name(dtype) << ", row " << row;
    }
  }
}

// More pages than a launch takes, in passes of several lengths, with and without a window; pages begin as NaN.
TEST_F(OpenCl, AttendsToThePastWithTheSameBitsHoweverItIsDivided) {
  constexpr uint64_t kRows = 600;
  for (const uint64_t window : {0U, 530U, 70U}) {
    const ops::AttentionConfig config{.q_heads = 2, .kv_heads = 1, .head_dim = 8, .window = window};
    Lab lab(kOpenClBackend);
    Queue& queue = lab.workspace.queue();
    const uint64_t width = config.q_width() + 2 * config.kv_width();
    const std::vector<double> values = random_values(3, kRows * width);
    const auto whole = ops::attention(lab.context, config, lab.tensor(values, {kRows, width}));
    ASSERT_TRUE(whole) << whole.error().message;
    const KvPast past =
        whole_past({.layers = 1, .kv_heads = 1, .head_dim = 8, .most_positions = kRows}, queue.device());
    for (const auto& page : past.pages[0]) queue.fill({page.get(), 0}, page->bytes(), std::byte{0xFF});
    uint64_t row = 0;
    for (const uint64_t count : {1U, 130U, 450U, 18U, 1U}) {
      const KvRows part{&past, row, count};
      const std::vector<double> some(values.begin() + static_cast<std::ptrdiff_t>(row * width),
                                     values.begin() + static_cast<std::ptrdiff_t>((row + count) * width));
      const auto y =
          ops::attention_decode_cache(lab.context, config, lab.tensor(some, {count, width}), std::span(&part, 1), 0);
      const auto expected = ops::slice_along_axis(lab.context, *whole, 0, row, count);
      ASSERT_TRUE(y && expected);
      EXPECT_TRUE(same_bits(*y, *expected)) << "window " << window << ", row " << row;
      row += count;
    }
    ASSERT_EQ(row, kRows);
  }
}

// ---------------------------------------------------------------- the caller's queue and buffers
class CallersQueue : public OpenCl {
 protected:
  void SetUp() override {
    OpenCl::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    driver = *opencl::Driver::system();
    device = opencl::list_devices(*driver)->front().device;
    opencl::DriverCode code = 0;
    context = driver->context_create(nullptr, 1, &device, nullptr, nullptr, &code);
    ASSERT_EQ(code, opencl::kDriverSuccess);
    queue = driver->queue_create(context, device, 0, &code);
    ASSERT_EQ(code, opencl::kDriverSuccess);
  }
  void TearDown() override {
    if (queue != nullptr) driver->queue_release(queue);
    if (context != nullptr) driver->context_release(context);
  }

  std::shared_ptr<const opencl::Driver> driver;
  opencl::DriverDevice device = nullptr;
  opencl::DriverContext context = nullptr;
  opencl::DriverQueue queue = nullptr;
};

TEST_F(CallersQueue, RunsModelsToTheSameBits) {
  const auto link = OpenClLink::open(queue);
  ASSERT_TRUE(link) << link.error().message;
  const std::string path = recorded_model_path("gpt_micro");
  const auto own = load_or_die(path, {.own_backend = &link->backend()});
  const auto usual = load_or_die(path, {.backend = "opencl"});
  const TokenInput tokens{{1, 2, 3, 4, 5}};
  const auto x = own->forward(tokens), y = usual->forward(tokens);
  ASSERT_TRUE(x) << x.error().message;
  ASSERT_TRUE(y) << y.error().message;
  EXPECT_TRUE(same_bits(*x, *y));
}

TEST_F(CallersQueue, ComputesWithBuffersInPlaceAndInOrder) {
  const auto link = OpenClLink::open(queue);
  ASSERT_TRUE(link) << link.error().message;
  opencl::DriverCode code = 0;
  const opencl::DriverMemory buffer = driver->memory_create(context, 1, 4 * sizeof(float), nullptr, &code);
  ASSERT_EQ(code, opencl::kDriverSuccess);
  {
    Lab lab(link->backend());
    const auto x = tensor_on_buffer(lab.workspace, buffer, {2, 2});
    ASSERT_TRUE(x) << x.error().message;
    EXPECT_EQ(buffer_of(*x), buffer);
    // The program's own command comes first, and is not waited for.
    const float values[] = {-1, 2, -3, 4};
    ASSERT_EQ(driver->write(queue, buffer, 0, 0, sizeof(values), values, 0, nullptr, nullptr), 0);
    const auto y = ops::relu(lab.context, *x);
    ASSERT_TRUE(y) << y.error().message;
    float out[4] = {};
    ASSERT_EQ(driver->read(queue, buffer_of(*y), 1, 0, sizeof(out), out, 0, nullptr, nullptr), 0);
    EXPECT_THAT(out, ::testing::ElementsAre(0, 2, 0, 4));
    EXPECT_FALSE(tensor_on_buffer(lab.workspace, buffer, {5})) << "it has four elements";
    Lab other(kOpenClBackend);
    EXPECT_FALSE(tensor_on_buffer(other.workspace, buffer, {4})) << "of another context";
    Lab host;
    EXPECT_FALSE(tensor_on_buffer(host.workspace, buffer, {4})) << "no OpenCL device";
    EXPECT_EQ(buffer_of(host.tensor({1}, {1})), nullptr);
  }
  EXPECT_EQ(driver->memory_release(buffer), 0) << "the caller's reference is still there";
}

TEST_F(CallersQueue, MustKeepOrder) {
  EXPECT_FALSE(OpenClLink::open(nullptr));
  opencl::DriverCode code = 0;
  const opencl::DriverQueue unordered = driver->queue_create(context, device, 1, &code);
  if (code != 0) GTEST_SKIP() << "this driver has no queues that run out of order";
  const auto link = OpenClLink::open(unordered);
  driver->queue_release(unordered);
  ASSERT_FALSE(link);
  EXPECT_THAT(link.error().message, HasSubstr("out of order"));
}

}  // namespace
}  // namespace ballast::testing
