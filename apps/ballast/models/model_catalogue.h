// The models that `ballast get` knows. A new one is a row in model_catalogue.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::cli {

// A file of a model, and which member of its package it is.
struct CatalogueFile {
  std::string_view member;  // path in the package
  std::string_view name;    // path in the model's folder
  uint64_t bytes;
  std::string_view blake3;  // hexadecimal
};

struct CatalogueModel {
  std::string_view name;
  std::string_view title;
  std::string_view licence;
  std::string_view package;  // of the Python Package Index
  std::string_view version;
  uint64_t download_bytes;
  std::span<const CatalogueFile> files;

  uint64_t bytes() const;
};

std::span<const CatalogueModel> all_catalogue_models();
// Null for a name that no row has.
const CatalogueModel* find_catalogue_model(std::string_view name);
std::vector<std::string> catalogue_names();

}  // namespace ballast::cli
