// Where bytes come from and where they go. Readers and writers of formats know nothing of files.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "ballast/base/bytes.h"
#include "ballast/base/result.h"

namespace ballast {

// Random access to a fixed number of bytes. All methods may be called from several threads at once.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  virtual uint64_t size() const = 0;

  // Fills `out` from `offset` or fails; a short read is an error that names the source.
  virtual Status read_at(uint64_t offset, MutableByteSpan out) const = 0;

  // The bytes themselves, valid while the source lives, where that costs no copy; nullopt otherwise or out of range.
  // A source over a mapped file dies with SIGBUS when the file is truncated underneath: use a reading source where
  // that must be survived.
  virtual std::optional<ByteSpan> view(uint64_t offset, uint64_t length) const = 0;

  // Fails when these bytes can no longer be read although they were there when the source was opened: where a file is
  // mapped, reading them would end the process. Costs a system call at most; says nothing about later.
  virtual Status check(uint64_t /*offset*/, uint64_t /*length*/) const { return {}; }

  // A hint that these bytes are wanted soon.
  virtual void prefetch(uint64_t /*offset*/, uint64_t /*length*/) const {}

  // What error texts call this source: a path, or "memory".
  virtual const std::string& name() const = 0;
};

// Opens files that stand beside the one being read (shards, the other half of a pair).
class SiblingOpener {
 public:
  virtual ~SiblingOpener() = default;
  // `file_name` is a plain name without any folder part; anything else is refused before the file system sees it.
  virtual Result<std::shared_ptr<const ByteSource>> open_sibling(std::string_view file_name) = 0;
};

// Bytes in memory, owned or borrowed. Borrowed bytes (static data, a caller's mapping) must outlive the source.
class MemorySource final : public ByteSource {
 public:
  static std::shared_ptr<MemorySource> owning(ByteVector bytes, std::string name = "memory");
  static std::shared_ptr<MemorySource> borrowing(ByteSpan bytes, std::string name = "memory");

  uint64_t size() const override { return bytes_.size(); }
  Status read_at(uint64_t offset, MutableByteSpan out) const override;
  std::optional<ByteSpan> view(uint64_t offset, uint64_t length) const override;
  const std::string& name() const override { return name_; }

 private:
  MemorySource(ByteVector owned, std::string name) : owned_(std::move(owned)), bytes_(owned_), name_(std::move(name)) {}
  MemorySource(ByteSpan bytes, std::string name) : bytes_(bytes), name_(std::move(name)) {}

  ByteVector owned_;
  ByteSpan bytes_;
  std::string name_;
};

// What every source answers when it is asked for bytes that it does not have.
Error past_the_end(const ByteSource& source, uint64_t offset, uint64_t length);

// Zeros for `size` bytes of what `source` holds; kOutOfMemory where this program could not address so many.
Result<ByteVector> make_bytes(const ByteSource& source, uint64_t size);
Error too_large_for_memory(const ByteSource& source, uint64_t size);

// Reads [offset, offset + length) into memory of its own; fails before allocating when the range leaves the source.
Result<ByteVector> read_bytes(const ByteSource& source, uint64_t offset, uint64_t length);

// Bytes that either point into a source or are owned by the result; `bytes()` is valid while the object lives and,
// for a view, while the source lives.
class BytesOrView {
 public:
  static Result<BytesOrView> of(const ByteSource& source, uint64_t offset, uint64_t length);
  explicit BytesOrView(ByteVector owned) : owned_(std::move(owned)), owns_(true) {}
  explicit BytesOrView(ByteSpan view) : view_(view) {}

  ByteSpan bytes() const { return owns_ ? ByteSpan(owned_) : view_; }
  bool is_view() const { return !owns_; }

 private:
  ByteVector owned_;
  ByteSpan view_;
  bool owns_ = false;
};

// Sequential output that may correct what it has already written. Used by one thread at a time.
class ByteSink {
 public:
  virtual ~ByteSink() = default;

  virtual Status write(ByteSpan bytes) = 0;
  // Replaces bytes already written: for checksums that precede the data they cover.
  virtual Status patch(uint64_t offset, ByteSpan bytes) = 0;
  virtual uint64_t position() const = 0;

  Status write_text(std::string_view text) { return write(as_bytes(text)); }
  // A sink that only records structure overrides this, so that a skipped payload costs nothing.
  virtual Status write_zeros(uint64_t count);
};

class MemorySink final : public ByteSink {
 public:
  Status write(ByteSpan bytes) override;
  Status patch(uint64_t offset, ByteSpan bytes) override;
  uint64_t position() const override { return bytes_.size(); }

  ByteVector take() { return std::move(bytes_); }

 private:
  ByteVector bytes_;
};

// Fills memory of the caller, which must outlive it. Anything beyond that memory is kInvalidArgument.
class SpanSink final : public ByteSink {
 public:
  explicit SpanSink(MutableByteSpan out) : out_(out) {}

  Status write(ByteSpan bytes) override;
  Status patch(uint64_t offset, ByteSpan bytes) override;
  uint64_t position() const override { return position_; }
  // kInvalidArgument unless the memory is full.
  Status finish() const;

 private:
  MutableByteSpan out_;
  size_t position_ = 0;
};

}  // namespace ballast
