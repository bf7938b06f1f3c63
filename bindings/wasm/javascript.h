// How functions here are named to JavaScript, and its functions here.
#pragma once

#define BALLAST_EXPORT(name) __attribute__((export_name(name)))
#define BALLAST_IMPORT(name) __attribute__((import_module("ballast"), import_name(name)))
