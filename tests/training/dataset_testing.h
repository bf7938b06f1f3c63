// What tests of data sets share.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <string>
#include <vector>

#include "ballast/training/dataset.h"

namespace ballast::testing {

template <typename T>
ArrayColumn column(std::string name, DType dtype, Shape shape, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {std::move(name), dtype, std::move(shape), BytesOrView(ByteVector(bytes.begin(), bytes.end()))};
}

template <typename T>
T value_of(Result<T> result) {
  if (!result) {
    ADD_FAILURE() << result.error().message;
    std::abort();
  }
  return std::move(result).value();
}

template <typename T>
std::string error_of(const Result<T>& result) {
  EXPECT_FALSE(result) << "an error was expected";
  return result ? "" : result.error().message;
}

inline Batch load(const Dataset& dataset, const std::vector<uint64_t>& examples) {
  Batch batch(dataset.layout(), examples.size());
  const Status status = batch.load(dataset, examples);
  EXPECT_TRUE(status) << (status ? "" : status.error().message);
  return batch;
}

template <typename T>
std::vector<T> list(std::span<const T> values) {
  return {values.begin(), values.end()};
}

// As the program gzip writes it, with a name in the header.
inline std::string gzip(const std::string& content) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  gz_header header{};
  std::string name = "content";
  header.name = reinterpret_cast<Bytef*>(name.data());
  deflateSetHeader(&stream, &header);
  std::string out(deflateBound(&stream, content.size()) + 64, '\0');
  std::string in = content;
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace ballast::testing
