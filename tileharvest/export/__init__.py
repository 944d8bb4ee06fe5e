"""What leaves the house: pictures, films, trees and pages, made of history and store."""
