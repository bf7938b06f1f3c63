module ballast-c-go

go 1.21
