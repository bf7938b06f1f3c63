// What a ballast_archive stands for.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "ballast/formats/archive.h"
#include "bindings/c/boundary.h"

namespace ballast::c {

// The elements of an array of metadata, so that each has a place of its own that C can point to.
struct MetaElements {
  std::vector<std::string> texts;
  std::vector<int64_t> integers;
  std::vector<double> numbers;
};

struct ArchiveObject {
  explicit ArchiveObject(Archive opened) : archive(std::move(opened)) {}

  const Archive archive;
  std::mutex mutex;                         // of what follows
  std::map<size_t, MetaElements> elements;  // by entry, of arrays that somebody asked for
};
template <>
struct HandleTraits<ballast_archive> {
  using Object = ArchiveObject;
  static constexpr HandleKind kKind = HandleKind::kArchive;
  static constexpr const char* kName = "archive";
};

struct TensorObject {
  std::shared_ptr<ArchiveObject> owner;  // of what `payload` points to
  TensorInfo info;
  Payload payload;
};
template <>
struct HandleTraits<ballast_tensor> {
  using Object = TensorObject;
  static constexpr HandleKind kKind = HandleKind::kTensor;
  static constexpr const char* kName = "tensor";
};

}  // namespace ballast::c
