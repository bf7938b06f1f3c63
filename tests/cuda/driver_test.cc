// NVIDIA's driver: where there is none, where it is old, and what its errors say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ballast/backends/backends.h"
#include "ballast/backends/cuda/architectures.h"
#include "ballast/backends/cuda/kernel_image.h"
#include "ballast/backends/cuda/kernel_names.h"
#include "tests/support/fake_cuda.h"

namespace ballast::testing {
namespace {

using cuda::Driver;
using cuda::Facts;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CudaDriver, ThatIsNotThereIsAnErrorThatSaysWhatToDo) {
  const auto driver = Driver::open("libno_such_driver.so.1");
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(driver.error().message,
              AllOf(HasSubstr("no NVIDIA driver"), HasSubstr("libno_such_driver.so.1"), HasSubstr("another backend")));
}

TEST(CudaDriver, WithoutItsFunctionsIsRefused) {
  const auto driver = Driver::open("libm.so.6");
  ASSERT_FALSE(driver);
  EXPECT_THAT(driver.error().message, AllOf(HasSubstr("cuInit"), HasSubstr("update the NVIDIA driver")));
}

TEST(CudaDriver, ThatIsTooOldSaysBothVersions) {
  fresh_fake_cuda().version = 12080;
  const auto driver = fake_driver();
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(driver.error().message,
              AllOf(HasSubstr("CUDA 12.8"), HasSubstr("CUDA 13.0 is needed"), HasSubstr("update")));
}

TEST(CudaDriver, WithoutADeviceSaysSo) {
  fresh_fake_cuda().devices = 0;
  const auto driver = fake_driver();
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(driver.error().message, HasSubstr("no NVIDIA GPU"));
}

TEST(CudaDriver, ThatCannotStartSaysWhereToLook) {
  FakeCuda& fake = fresh_fake_cuda();
  fake.failing_call = 1;
  const auto driver = fake_driver();
  ASSERT_FALSE(driver);
  EXPECT_THAT(driver.error().message,
              AllOf(HasSubstr("starting the driver"), HasSubstr("error 999"), HasSubstr("nvidia-smi")));
}

TEST(CudaDriver, ListsTheDevices) {
  FakeCuda& fake = fresh_fake_cuda();
  fake.devices = 2;
  const auto driver = fake_driver();
  ASSERT_TRUE(driver) << driver.error().message;
  const auto devices = cuda::list_devices(**driver);
  ASSERT_TRUE(devices) << devices.error().message;
  ASSERT_EQ(devices->size(), 2U);
  EXPECT_EQ((*devices)[1].index, 1);
  EXPECT_EQ((*devices)[1].name, "Fake GPU");
  EXPECT_EQ((*devices)[1].architecture(), "sm_90");
  EXPECT_EQ((*devices)[1].facts.multiprocessors, 132U);
  EXPECT_EQ((*devices)[1].memory, fake.memory);
}

TEST(CudaDriver, SaysWhatToDoAboutItsErrors) {
  fresh_fake_cuda();
  const auto driver = fake_driver();
  ASSERT_TRUE(driver) << driver.error().message;
  const auto text = [&](int code) { return (*driver)->error(code, "computing").message; };
  EXPECT_THAT(text(2), HasSubstr("the backend \"cpu\""));
  EXPECT_THAT(text(3), HasSubstr("fork()"));
  EXPECT_THAT(text(46), HasSubstr("the backend \"cpu\""));
  EXPECT_THAT(text(803), HasSubstr("restart the machine"));
}

TEST(CudaDevices, TheFirstThatKernelsRunOnIsChosen) {
  std::vector<cuda::DeviceInfo> devices(3);
  devices[0].facts = {.major = 6, .minor = 1};
  devices[1].facts = {.major = 8, .minor = 6};
  devices[2].facts = {.major = 9, .minor = 0};
  EXPECT_EQ(cuda::first_usable(devices, "sm_80 sm_90a"), &devices[1]);
  EXPECT_EQ(cuda::first_usable(devices, "sm_90a"), &devices[2]);
  EXPECT_EQ(cuda::first_usable(devices, "sm_100"), nullptr);
  EXPECT_EQ(cuda::first_usable({}, "sm_90a"), nullptr);
}

TEST(CudaDevice, BeyondTheLastIsRefused) {
  fresh_fake_cuda();
  const auto driver = fake_driver();
  ASSERT_TRUE(driver);
  const auto device = cuda::CudaDevice::open(*driver, 1);
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(device.error().message, HasSubstr("no device 1"));
}

TEST(CudaArchitectures, RunOnLaterMinorVersionsOfTheirMajorOne) {
  const auto gpu = [](int major, int minor) { return Facts{.major = major, .minor = minor}; };
  EXPECT_TRUE(cuda::runs_on("sm_80 sm_86", gpu(8, 0)));
  EXPECT_TRUE(cuda::runs_on("sm_80 sm_86", gpu(8, 7)));
  EXPECT_FALSE(cuda::runs_on("sm_86", gpu(8, 0)));
  EXPECT_FALSE(cuda::runs_on("sm_80", gpu(9, 0)));
  EXPECT_TRUE(cuda::runs_on("sm_90a", gpu(9, 0)));
  EXPECT_FALSE(cuda::runs_on("sm_100a", gpu(10, 3)));
  EXPECT_TRUE(cuda::runs_on("sm_100", gpu(10, 3)));
  EXPECT_FALSE(cuda::runs_on("sm_100", gpu(12, 0)));
  EXPECT_TRUE(cuda::runs_on("sm_80 compute_75", gpu(7, 5)));
  EXPECT_TRUE(cuda::runs_on("sm_80 compute_75", gpu(13, 0)));
  EXPECT_FALSE(cuda::runs_on("sm_80 compute_75", gpu(7, 0)));
  EXPECT_FALSE(cuda::runs_on("", gpu(9, 0)));
}

TEST(CudaArchitectures, OfHopperAndLaterWaitByThemselves) {
  for (const int older : {0, 75, 80, 86, 89}) EXPECT_FALSE(cuda::waits_by_itself(older)) << older;
  for (const int newer : {90, 100, 103, 120}) EXPECT_TRUE(cuda::waits_by_itself(newer)) << newer;
}

// That each image has each kernel of its rows is checked when it is packed (cmake/pack_kernels.py).
TEST(CudaKernels, AreInTheLibraryWhereItWasBuiltWithThem) {
  if (cuda::kernel_images().empty()) {
    EXPECT_EQ(cuda::kernel_architectures(), "");
    return;
  }
  for (const cuda::KernelRow& row : cuda::kKernelRows) {
    const auto image = std::ranges::find(cuda::kernel_images(), row.module, &cuda::KernelImage::module);
    ASSERT_NE(image, cuda::kernel_images().end()) << row.module;
    ASSERT_GT(image->bytes.size(), 64U) << row.module;
    EXPECT_EQ(load_le<uint32_t>(image->bytes.data()), 0xBA55ED50U) << row.module << " is no fat binary";
  }
}

TEST(CudaBackend, IsThereUnderItsNameAndByTheNumberOfADevice) {
  const Backend* const cuda = find_backend("cuda");
  ASSERT_NE(cuda, nullptr);
  EXPECT_TRUE(std::ranges::find(all_backends(), cuda) != all_backends().end()) << "listed wherever it runs";
  ASSERT_NE(find_backend("cuda:3"), nullptr);
  EXPECT_EQ(find_backend("cuda:3")->name, "cuda:3");
  EXPECT_EQ(find_backend("cuda:"), nullptr);
  EXPECT_EQ(find_backend("cuda:99"), nullptr);
}

TEST(CudaBackend, OpensOrSaysWhyNot) {
  const Backend& cuda = *find_backend("cuda");
  const auto found = cuda.find_devices();
  const auto device = cuda.open_device();
  EXPECT_EQ(static_cast<bool>(found), static_cast<bool>(device));
  if (found) {
    EXPECT_EQ(&default_backend(), &cuda);
    EXPECT_GE(found->size(), 2U) << "the driver, and a line for each device";
    return;
  }
  EXPECT_EQ(found.error().message, device.error().message);
  EXPECT_THAT(found.error().message, HasSubstr("CUDA: "));
  EXPECT_EQ(default_backend().name, "cpu");
}

TEST(CudaBackend, DoesNotTrainAndSaysWhatDoes) {
  const auto backend = choose_training_backend("cuda");
  ASSERT_FALSE(backend);
  EXPECT_EQ(backend.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(backend.error().message, AllOf(HasSubstr("\"cuda\" does not train"), HasSubstr("\"cpu\"")));
  EXPECT_EQ(default_backend(true).name, "cpu");
}

}  // namespace
}  // namespace ballast::testing
