-- What a picture shows, in words, for models that take no pictures: written once, so that requests keep their bytes.

alter table media add column description text;
